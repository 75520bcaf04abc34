// GET /chat/stream/{thread_id}: snapshot or replay, then what a live run has said, then everything that happens. And runs that
// outlive their client.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { EventSource } from "eventsource";
import { calls, gate, inTurn, never, outline, says, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const todos = [{ content: "Build", status: "in_progress" }];
const models = ["plain", "tools", "held", "held-again", "held-tool", "long", "todos", "leaving", "quiet", "slow"];
const manifests = { agent: { tools: ["calculator", "todo_write"] } };
const answers = (mock: MockModel): void => {
  mock.answer("plain", { text: ["The", " answer", "."] });
  mock.answer("tools", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
  mock.answer("todos", inTurn(calls(["todo_write", { todos }]), { text: "Listed." }));
};

/** Frames until one fits, that one with them. */
async function framesUntil(stream: TestStream, isLast: (frame: Frame) => boolean): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of stream) {
    if (frame.name !== ":") frames.push(frame);
    if (isLast(frame)) return frames;
  }
  throw new Error(`the stream ended:\n${stream.text}`);
}
const isReply = ({ name, json }: Frame) =>
  name === "session_event" && json.data.role === "assistant" && json.data.tool_calls === undefined;
const seqs = (frames: readonly Frame[]): number[] =>
  frames.filter(({ name }) => name === "session_event").map(({ json }) => json.data.seq);
const upTo = (end: number, start = 0) => Array.from({ length: end - start }, (_, at) => start + at);

describe("reattaching", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let idle: TestStream;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, { models, manifests }));
    answers(mock);
    idle = await server.listen("/chat/stream/idle");
    atEnd.after(() => idle.close());
  });

  async function listen(
    thread: string,
    options: { cursor?: string | number; query?: string } = {},
  ): Promise<TestStream> {
    const { cursor, query = "" } = options;
    const headers = cursor === undefined ? {} : { "last-event-id": String(cursor) };
    const stream = await server.listen(`/chat/stream/${thread}${query}`, { headers });
    atEnd.after(() => stream.close());
    return stream;
  }
  const say = (thread_id: string, model = "plain") => server.post("/chat", turn("agent", "go", { thread_id, model }));
  const start = (thread_id: string, model: string) =>
    server.stream("/chat/stream", turn("agent", "go", { thread_id, model }));

  test("STREAM-008 without a cursor the stream opens with one snapshot of the thread, which is that of GET /chat/sessions", async () => {
    await say("opened", "tools");
    const stream = await listen("opened");
    const { json } = await server.get("/chat/sessions/opened");

    const first = await stream.next();
    await say("opened");
    const next = await stream.next();

    assert.deepEqual([stream.status, stream.headers["content-type"]], [200, "text/event-stream"]);
    assert.deepEqual([first?.name, first?.id, next?.name], ["snapshot", "5", "session_event"]);
    assert.deepEqual(first?.json.data, json);
    assert.equal(json.transcript.length, 5);
  });

  test("STREAM-008 a thread that does not exist has an empty snapshot, and listening creates nothing", async () => {
    const stream = await listen("not-yet");
    const first = await stream.next();
    const { json } = await server.get("/chat/sessions");

    assert.deepEqual([first?.name, first?.id, first?.json.data.transcript], ["snapshot", "0", []]);
    assert.ok(!json.sessions.some(({ id }: { id: string }) => id === "default:not-yet"));
    await say("not-yet");
    const frames = await framesUntil(stream, isReply);
    assert.deepEqual(seqs(frames), [0, 1], "its first turn is heard");
  });

  test("STREAM-009 with Last-Event-ID, or last_event_id, exactly the events from the cursor on are replayed", async () => {
    await say("cursors", "tools");
    await say("cursors");
    const next = (await server.get("/chat/sessions/cursors")).json.transcript.length;
    assert.equal(next, 7);

    for (const cursor of upTo(next)) {
      for (const how of [{ cursor }, { query: `?last_event_id=${cursor}` }]) {
        const stream = await listen("cursors", how);
        const frames = await framesUntil(stream, ({ id }) => id === String(next));

        assert.deepEqual([...new Set(frames.map(({ name }) => name))], ["session_event"]);
        assert.deepEqual(seqs(frames), upTo(next, cursor));
        for (const { id, json } of frames) assert.equal(id, String(json.data.seq + 1));
        stream.close();
      }
    }
  });

  test("STREAM-009 a cursor at the end replays nothing and then hears what comes; the header goes before the query", async () => {
    await say("at-the-end");
    const stream = await listen("at-the-end", { cursor: 2, query: "?last_event_id=0" });

    await say("at-the-end");
    const frames = await framesUntil(stream, isReply);

    assert.deepEqual(seqs(frames), [2, 3]);
    assert.ok(frames.every(({ name }) => name !== "snapshot"));
  });

  test("STREAM-009 a cursor that is no sequence number, or above the next one, gets a snapshot", async () => {
    await say("odd-cursors");

    for (const cursor of ["x", "-1", "1.5", "3", "999999999999"]) {
      const stream = await listen("odd-cursors", { cursor });
      const first = await stream.next();
      stream.close();

      assert.deepEqual([first?.name, first?.id], ["snapshot", "2"], cursor);
    }
  });

  test("STREAM-022 STREAM-009 reconnecting with any id of a turn's stream loses nothing and repeats nothing", async () => {
    const frames = await (await start("every-id", "tools")).rest();
    const all = (await server.get("/chat/sessions/every-id")).json.transcript.length;
    const ids = [...new Set(frames.flatMap(({ id }) => (id === null ? [] : [Number(id)])))];
    assert.deepEqual(ids, [3, 4, 5]);

    for (const id of ids.filter((each) => each < all)) {
      const stream = await listen("every-id", { cursor: id });
      const replayed = await framesUntil(stream, isReply);

      assert.deepEqual(seqs(replayed), upTo(all, id));
    }
  });

  test("STREAM-001 STREAM-004 a session event has the specified fields, and every tool call its result", async () => {
    await say("events", "tools");
    const stream = await listen("events", { cursor: 0 });
    const events = (await framesUntil(stream, isReply)).map(({ json }) => json.data);

    const keys = ["id", "seq", "kind", "role", "content", "name"];
    const [user, asks, intent, result, reply] = events;
    assert.deepEqual(Object.keys(user), keys);
    assert.deepEqual(Object.keys(asks), [...keys, "tool_calls"]);
    assert.deepEqual(Object.keys(result), [...keys, "tool_call_id"]);
    assert.deepEqual(Object.keys(reply), keys);
    assert.deepEqual(
      [intent.kind, intent.role, intent.content, intent.tool_call_id],
      ["tool_call", null, "", "call_1"],
    );
    assert.deepEqual([user.kind, user.role, user.content, user.name], ["message", "user", "go", null]);
    assert.deepEqual(asks.tool_calls, [{ id: "call_1", name: "calculator", args: { expression: "6*7" } }]);
    assert.deepEqual(
      [result.kind, result.role, result.content, result.name, result.tool_call_id],
      ["tool_result", "tool", "42", "calculator", "call_1"],
    );
    const { transcript } = (await server.get("/chat/sessions/events")).json;
    assert.deepEqual(
      events.map(({ id }) => id),
      transcript.map(({ id }: { id: string }) => id),
    );
  });

  test("STREAM-002 a session event carries readable reasoning, and no other metadata", async () => {
    mock.answer("quiet", { reasoning: ["Let me", " think."], text: "Said." });
    await say("thoughts", "quiet");
    const stream = await listen("thoughts", { cursor: 0 });

    const [user, reply] = await framesUntil(stream, isReply);

    assert.equal(user?.json.data.metadata, undefined);
    assert.deepEqual(reply?.json.data.metadata, { thinking: [{ type: "thinking", thinking: "Let me think." }] });
  });

  test("STREAM-010 the stream tails the thread: an event for each commit, and tokens, but none of the starter's own frames", async () => {
    const stream = await listen("tailed");
    await stream.until("snapshot");

    const own = await (await start("tailed", "tools")).rest();
    const heard = await framesUntil(stream, isReply);

    const events = (count: number) => new Array<string>(count).fill("session_event");
    assert.deepEqual(outline(heard), [...events(1), "session_progress", ...events(3), "text", ...events(1)]);
    assert.deepEqual(seqs(heard), [0, 1, 2, 3, 4]);
    assert.equal(wordsOf(heard), wordsOf(own));
    assert.ok(outline(own).includes("tool_start"));
  });

  test("STREAM-010 todo_updated is heard by who listens too", async () => {
    const stream = await listen("todo-tail");
    await stream.until("snapshot");

    await say("todo-tail", "todos");
    const frame = await stream.until("todo_updated");

    assert.deepEqual(frame.json.data, {
      todos: [{ id: "1", content: "Build", status: "in_progress", active_form: "" }],
    });
    assert.match(frame.id ?? "", /^\d+$/);
  });

  test("STREAM-010 many listen to one thread, and each hears all of it", async () => {
    const streams = await Promise.all(upTo(8).map(() => listen("crowd")));
    for (const stream of streams) await stream.until("snapshot");

    await say("crowd");

    for (const stream of streams) {
      const frames = await framesUntil(stream, isReply);
      assert.deepEqual([seqs(frames), wordsOf(frames)], [[0, 1], "The answer."]);
    }
  });

  test("STREAM-010 who comes in mid-run gets the snapshot, then what the run has said, then the rest", async () => {
    const more = gate();
    mock.answer("held", says("So ", "far", more.opened, ", so good."));
    const own = await start("mid-run", "held");
    const before = await framesUntil(own, () => own.text.includes('"far"'));

    const stream = await listen("mid-run");
    const opening = [await stream.next(), await stream.next(), await stream.next(), await stream.next()] as Frame[];
    more.open();
    const rest = await framesUntil(stream, isReply);
    const after = await own.rest();

    assert.deepEqual(
      opening.map(({ name, id }) => [name, id]),
      [
        ["snapshot", "1"],
        ["session_progress", null],
        ["session_progress", null],
        ["text_delta", null],
      ],
    );
    assert.equal(opening[0]?.json.data.phase, "turn");
    assert.deepEqual(opening[1]?.json.data, { phase: "turn", replay: true });
    assert.equal(wordsOf(opening), "So far");
    assert.deepEqual(outline(rest), ["text", "session_event"]);
    assert.equal(wordsOf([...opening, ...rest]), "So far, so good.");
    assert.equal(wordsOf([...before, ...after]), "So far, so good.");
    assert.equal(rest.at(-1)?.json.data.content, "So far, so good.");
  });

  test("STREAM-009 who comes back in mid-run with a cursor gets the events from there, then what was said since the last", async () => {
    const more = gate();
    mock.answer(
      "held-tool",
      inTurn(
        { text: "Let me see. ", ...calls(["calculator", { expression: "6*7" }]) },
        says("It ", more.opened, "is 42."),
      ),
    );
    const own = await start("back", "held-tool");
    await framesUntil(own, () => own.text.includes('"It "'));
    own.close();

    const stream = await listen("back", { cursor: 1 });
    const opening = await framesUntil(stream, ({ name }) => name === "text_delta");
    more.open();
    const rest = await framesUntil(stream, isReply);

    assert.deepEqual(outline(opening), ["session_event", "session_event", "session_event", "session_progress", "text"]);
    assert.deepEqual(opening.find(({ name }) => name === "session_progress")?.json.data, {
      phase: "turn",
      replay: true,
    });
    assert.equal(wordsOf(opening), "It ", "not what is in the log already");
    assert.deepEqual(seqs([...opening, ...rest]), [1, 2, 3, 4]);
    assert.equal(wordsOf([...opening, ...rest]), "It is 42.");
  });

  test("STREAM-010 past 256 KiB the replay says truncated, and the committed event brings the text", async () => {
    const more = gate();
    const long = "x".repeat(256 * 1024 + 1);
    mock.answer("long", says(long, more.opened, " end"));
    const own = await start("truncated", "long");
    await framesUntil(own, ({ name }) => name === "text_delta");

    const stream = await listen("truncated");
    const opening = [await stream.next(), await stream.next()] as Frame[];
    more.open();
    const rest = await framesUntil(stream, isReply);
    own.close();

    assert.deepEqual(opening[1]?.json.data, { phase: "turn", replay: true, truncated: true });
    assert.equal(wordsOf([...opening, ...rest]), " end");
    assert.equal(rest.at(-1)?.json.data.content, `${long} end`);
  });

  test("STREAM-010 a run goes on without its client, to its end", async () => {
    const more = gate();
    mock.answer("leaving", says("Half", more.opened, " and whole."));
    const own = await start("left", "leaving");
    await own.until("text_delta");
    own.close();
    const stream = await listen("left");
    await stream.until("text_delta");

    more.open();
    const frames = await framesUntil(stream, isReply);

    assert.equal(frames.at(-1)?.json.data.content, "Half and whole.");
    const { json } = await server.get("/chat/sessions/left");
    assert.deepEqual([json.phase, json.transcript.at(-1).status], ["idle", "complete"]);
  });

  test("STREAM-010 the client of POST /chat may leave too", async () => {
    const more = gate();
    mock.answer("held-again", says(more.opened, "Said to nobody."));
    const asked = await server.stream(
      "/chat/stream",
      turn("agent", "go", { thread_id: "left-json", model: "held-again" }),
    );
    await asked.until("session_progress");
    asked.close();

    more.open();
    const session = await eventually("the reply", async () => {
      const { json } = await server.get("/chat/sessions/left-json");
      return json.phase === "idle" && json.transcript.length === 2 ? json : undefined;
    });

    assert.equal(session.transcript[1].content, "Said to nobody.");
  });

  test("STREAM-011 an idle stream is sent : keep-alive comments", async () => {
    await idle.until("snapshot");

    const comment = await idle.next();

    assert.equal(comment?.raw, ": keep-alive\n\n");
  });
});

describe("streams and runs with short lives", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const env = { SVC_STREAM_RESUME_IDLE_SECONDS: "0.2", SVC_DETACHED_RUN_SECONDS: "0.2" };
    ({ server, mock } = await startChat(atEnd, { models, manifests, env }));
    answers(mock);
  });
  const say = (thread_id: string) => server.post("/chat", turn("agent", "go", { thread_id }));

  test("STREAM-012 after SVC_STREAM_RESUME_IDLE_SECONDS of silence the stream ends with [DONE]; a client that comes back has lost nothing", async () => {
    await say("quiet");
    const stream = await server.listen("/chat/stream/quiet");
    const frames = await stream.rest();

    await say("quiet");
    const cursor = frames.at(0)?.id ?? "";
    const again = await (await server.listen("/chat/stream/quiet", { headers: { "last-event-id": cursor } })).rest();

    assert.deepEqual(outline(frames), ["snapshot", "[DONE]"]);
    assert.deepEqual([seqs(again), again.at(-1)?.name], [[2, 3], "[DONE]"]);
  });

  test("STREAM-012 a stream whose thread has a live run is not idle", async () => {
    const more = gate();
    mock.answer("slow", says(more.opened, "At last."));
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "busy", model: "slow" }));
    const stream = await server.listen("/chat/stream/busy");
    const quiet = await server.listen("/chat/stream/another");

    // One that nothing happens on ends meanwhile.
    const ended = await quiet.rest();
    more.open();
    const frames = await stream.rest();
    await own.rest();

    assert.equal(ended.at(-1)?.name, "[DONE]");
    assert.deepEqual(seqs(frames), [1]);
    assert.equal(frames.at(-1)?.name, "[DONE]");
  });

  test("STREAM-012 the eventsource client reconnects by itself with the last id, and sees every event once", async () => {
    await say("browser");
    const seen: { data: string; id: string }[] = [];
    const source = new EventSource(`${server.url}/chat/stream/browser`);
    atEnd.after(() => source.close());
    let ends = 0;
    source.addEventListener("message", ({ data, lastEventId }) => {
      if (data === "[DONE]") ends += 1;
      else seen.push({ data, id: lastEventId });
    });
    const ended = async (count: number): Promise<boolean> => {
      await setImmediate();
      return ends === count;
    };
    await eventually("the first end", async () => (await ended(1)) || undefined);

    await say("browser");
    await eventually("the second end", async () => (await ended(2)) || undefined);
    source.close();

    const frames = seen.map(({ data, id }) => ({ ...JSON.parse(data), id }));
    assert.deepEqual(
      frames.map(({ event, id }) => [event, id]),
      [
        ["snapshot", "2"],
        ["session_event", "3"],
        ["session_event", "4"],
      ],
    );
    assert.deepEqual(
      frames.slice(1).map(({ data }) => data.seq),
      [2, 3],
    );
  });

  test("STREAM-010 SVC_DETACHED_RUN_SECONDS bounds a run that nobody watches, and what it has said is kept", async () => {
    mock.answer("leaving", says("Half", never));
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "bounded", model: "leaving" }));
    await own.until("text_delta");
    own.close();

    const session = await eventually("the end of the run", async () => {
      const { json } = await server.get("/chat/sessions/bounded");
      return json.phase === "turn" ? undefined : json;
    });

    assert.equal(session.phase, "aborted");
    const last = session.transcript.at(-1);
    assert.deepEqual([last.content, last.status], ["Half", "aborted"]);
    assert.equal(await mock.requests.find(({ model }) => model === "leaving")?.ended, "gone");
  });
});

describe("SVC_DETACHED_RUN_SECONDS=0", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const env = { SVC_DETACHED_RUN_SECONDS: "0" };
    ({ server, mock } = await startChat(atEnd, { models, manifests, env }));
    answers(mock);
  });

  test("STREAM-010 a run ends when its client leaves, its model call is ended, and the thread is free", async () => {
    mock.answer("leaving", says("Half", never));
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "at-once", model: "leaving" }));
    await own.until("text_delta");

    own.close();
    const ended = await mock.requests.find(({ model }) => model === "leaving")?.ended;
    const next = await eventually("a free thread", async () => {
      const answer = await server.post("/chat", turn("agent", "again", { thread_id: "at-once" }));
      return answer.status === 409 ? undefined : answer;
    });

    assert.equal(ended, "gone");
    assert.equal(next.status, 200);
    assert.deepEqual(
      next.json.messages.map(({ content }: { content: string }) => content),
      ["go", "Half", "again", "The answer."],
    );
  });

  test("STREAM-010 whoever only listens may come and go", async () => {
    const more = gate();
    mock.answer("held", says(more.opened, "Said."));
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "listeners", model: "held" }));
    await own.until("session_progress");
    const listener = await server.listen("/chat/stream/listeners");
    await listener.until("snapshot");

    listener.close();
    more.open();
    const frames = await own.rest();

    assert.equal(wordsOf(frames), "Said.");
  });
});
