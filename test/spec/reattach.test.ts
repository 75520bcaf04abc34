// GET /chat/stream/{thread_id}: a snapshot or a replay, then the text of a live run, then all later frames.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import {
  calls,
  eventSeqs,
  framesUntil,
  gate,
  inTurn,
  isReply,
  outline,
  says,
  startChat,
  turn,
  wordsOf,
} from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const todos = [{ content: "Build", status: "in_progress" }];
const models = ["plain", "tools", "held", "held-again", "held-tool", "long", "todos", "leaving", "quiet"];
const manifests = { agent: { tools: ["calculator", "todo_write"] } };

const upTo = (end: number, start = 0) => Array.from({ length: end - start }, (_, at) => start + at);

describe("reattaching", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let idle: TestStream;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, { models, manifests }));
    mock.answer("plain", { text: ["The", " answer", "."] });
    mock.answer("tools", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    mock.answer("todos", inTurn(calls(["todo_write", { todos }]), { text: "Listed." }));
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

  test("STREAM-008 without a cursor the stream opens with one snapshot, as in GET /chat/sessions", async () => {
    await say("opened", "tools");
    const stream = await listen("opened");
    // Open questions follow a stream's snapshot as separate frames.
    const { openQuestions, ...json } = (await server.get("/chat/sessions/opened")).json;

    const first = await stream.next();
    await say("opened");
    const next = await stream.next();

    assert.deepEqual([stream.status, stream.headers["content-type"]], [200, "text/event-stream"]);
    assert.deepEqual([first?.name, first?.id, next?.name], ["snapshot", "5", "session_event"]);
    assert.deepEqual([first?.json.data, openQuestions], [json, []]);
    assert.equal(json.transcript.length, 5);
  });

  test("STREAM-008 a missing thread has an empty snapshot, and listening creates nothing", async () => {
    const stream = await listen("not-yet");
    const first = await stream.next();
    const { json } = await server.get("/chat/sessions");

    assert.deepEqual([first?.name, first?.id, first?.json.data.transcript], ["snapshot", "0", []]);
    assert.ok(!json.sessions.some(({ id }: { id: string }) => id === "default:not-yet"));
    await say("not-yet");
    const frames = await framesUntil(stream, isReply);
    assert.deepEqual(eventSeqs(frames), [0, 1], "its first turn is heard");
  });

  test("STREAM-009 Last-Event-ID or last_event_id replays exactly the events from the cursor on", async () => {
    await say("cursors", "tools");
    await say("cursors");
    const next = (await server.get("/chat/sessions/cursors")).json.transcript.length;
    assert.equal(next, 7);

    for (const cursor of upTo(next)) {
      for (const how of [{ cursor }, { query: `?last_event_id=${cursor}` }]) {
        const stream = await listen("cursors", how);
        const frames = await framesUntil(stream, ({ id }) => id === String(next));

        assert.deepEqual([...new Set(frames.map(({ name }) => name))], ["session_event"]);
        assert.deepEqual(eventSeqs(frames), upTo(next, cursor));
        for (const { id, json } of frames) assert.equal(id, String(json.data.seq + 1));
        stream.close();
      }
    }
  });

  test("STREAM-009 a cursor at the end replays nothing; the header has priority over the query", async () => {
    await say("at-the-end");
    const stream = await listen("at-the-end", { cursor: 2, query: "?last_event_id=0" });

    await say("at-the-end");
    const frames = await framesUntil(stream, isReply);

    assert.deepEqual(eventSeqs(frames), [2, 3]);
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
    for (const query of ["%C2%A01", "1%C2%A0", "%EF%BB%BF1", "1%E2%80%A8"]) {
      const stream = await listen("odd-cursors", { query: `?last_event_id=${query}` });
      const first = await stream.next();
      stream.close();

      assert.deepEqual([first?.name, first?.id], ["snapshot", "2"], query);
    }
  });

  test("STREAM-022 STREAM-009 reconnecting with any id of a turn's stream loses and repeats nothing", async () => {
    const frames = await (await start("every-id", "tools")).rest();
    const all = (await server.get("/chat/sessions/every-id")).json.transcript.length;
    const ids = [...new Set(frames.flatMap(({ id }) => (id === null ? [] : [Number(id)])))];
    assert.deepEqual(ids, [3, 4, 5]);

    for (const id of ids.filter((each) => each < all)) {
      const stream = await listen("every-id", { cursor: id });
      const replayed = await framesUntil(stream, isReply);

      assert.deepEqual(eventSeqs(replayed), upTo(all, id));
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

  test("STREAM-002 a session event has readable reasoning, and no other metadata", async () => {
    mock.answer("quiet", { reasoning: ["Let me", " think."], text: "Said." });
    await say("thoughts", "quiet");
    const stream = await listen("thoughts", { cursor: 0 });

    const [user, reply] = await framesUntil(stream, isReply);

    assert.equal(user?.json.data.metadata, undefined);
    assert.deepEqual(reply?.json.data.metadata, { thinking: [{ type: "thinking", thinking: "Let me think." }] });
  });

  test("STREAM-010 the stream has each event and token, and none of the starter's own frames", async () => {
    const stream = await listen("tailed");
    await stream.until("snapshot");

    const own = await (await start("tailed", "tools")).rest();
    const heard = await framesUntil(stream, isReply);

    const events = (count: number) => new Array<string>(count).fill("session_event");
    assert.deepEqual(outline(heard), [...events(1), "session_progress", ...events(3), "text", ...events(1)]);
    assert.deepEqual(eventSeqs(heard), [0, 1, 2, 3, 4]);
    assert.equal(wordsOf(heard), wordsOf(own));
    assert.ok(outline(own).includes("tool_start"));
  });

  test("STREAM-010 todo_updated reaches listeners too", async () => {
    const stream = await listen("todo-tail");
    await stream.until("snapshot");

    await say("todo-tail", "todos");
    const frame = await stream.until("todo_updated");

    assert.deepEqual(frame.json.data, {
      todos: [{ id: "1", content: "Build", status: "in_progress", active_form: "" }],
    });
    assert.match(frame.id ?? "", /^\d+$/);
  });

  test("STREAM-010 many listeners of one thread each get all of it", async () => {
    const streams = await Promise.all(upTo(8).map(() => listen("crowd")));
    for (const stream of streams) await stream.until("snapshot");

    await say("crowd");

    for (const stream of streams) {
      const frames = await framesUntil(stream, isReply);
      assert.deepEqual([eventSeqs(frames), wordsOf(frames)], [[0, 1], "The answer."]);
    }
  });

  test("STREAM-010 a listener mid-run gets the snapshot, then the run's text so far, then the rest", async () => {
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

  test("STREAM-009 a cursor mid-run gets later events, then the text since the last one", async () => {
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
    assert.deepEqual(eventSeqs([...opening, ...rest]), [1, 2, 3, 4]);
    assert.equal(wordsOf([...opening, ...rest]), "It is 42.");
  });

  test("STREAM-010 a replay above 256 KiB is truncated, and the committed event has the text", async () => {
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

  test("STREAM-010 a run continues to its end after its client disconnects", async () => {
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

  test("STREAM-010 a run continues after the client of POST /chat disconnects", async () => {
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
