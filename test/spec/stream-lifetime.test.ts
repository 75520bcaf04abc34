// The lifetime of streams and runs without listeners or without output.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { EventSource } from "eventsource";
import { calls, eventSeqs, gate, inTurn, never, outline, says, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["plain", "held", "leaving", "slow"];

describe("streams and runs with short lifetimes", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const env = { SVC_STREAM_RESUME_IDLE_SECONDS: "0.2", SVC_DETACHED_RUN_SECONDS: "0.2" };
    ({ server, mock } = await startChat(atEnd, { models, env }));
    mock.answer("plain", { text: "The answer." });
  });
  const say = (thread_id: string) => server.post("/chat", turn("agent", "go", { thread_id }));

  test("STREAM-012 an idle stream ends with [DONE]; a client that returns has lost nothing", async () => {
    await say("quiet");
    const stream = await server.listen("/chat/stream/quiet");
    const frames = await stream.rest();

    await say("quiet");
    const cursor = frames.at(0)?.id ?? "";
    const again = await (await server.listen("/chat/stream/quiet", { headers: { "last-event-id": cursor } })).rest();

    assert.deepEqual(outline(frames), ["snapshot", "[DONE]"]);
    assert.deepEqual([eventSeqs(again), again.at(-1)?.name], [[2, 3], "[DONE]"]);
  });

  test("STREAM-012 a stream whose thread has a live run is not idle", async () => {
    const more = gate();
    mock.answer("slow", says(more.opened, "At last."));
    const own = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "busy", model: "slow" }));
    const stream = await server.listen("/chat/stream/busy");
    const quiet = await server.listen("/chat/stream/another");

    // A stream without any frames ends in this time.
    const ended = await quiet.rest();
    more.open();
    const frames = await stream.rest();
    await own.rest();

    assert.equal(ended.at(-1)?.name, "[DONE]");
    assert.deepEqual(eventSeqs(frames), [1]);
    assert.equal(frames.at(-1)?.name, "[DONE]");
  });

  test("STREAM-012 the eventsource client reconnects with the last id, and gets every event once", async () => {
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

  test("STREAM-010 SVC_DETACHED_RUN_SECONDS ends an unwatched run and keeps its text", async () => {
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
    const manifests = {
      agent: {},
      gated: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
    };
    ({ server, mock } = await startChat(atEnd, { models, manifests, env }));
    mock.answer("plain", { text: "The answer." });
  });

  test("STREAM-010 a run ends when its client leaves, with its model call, and frees the thread", async () => {
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

  test("STREAM-010 a suspended run outlasts its client, and the answer of a person resumes it", async () => {
    mock.answer("held", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "It is 42." }));
    const own = await server.stream("/chat/stream", turn("gated", "go", { thread_id: "waits", model: "held" }));
    const { approval_id } = (await own.until("approval_required")).json.data;
    await eventually("a suspended run", async () => {
      const { text } = await server.get("/metrics");
      return /^svc_live_runs 0$/m.test(text) || undefined;
    });

    own.close();
    await eventually("its client is gone", async () => {
      const { text } = await server.get("/metrics");
      return /^svc_open_streams 0$/m.test(text) || undefined;
    });
    await server.post(`/approvals/${approval_id}/decide`, { decision: "approved" });

    const last = await eventually("the end of the run", async () => {
      const { phase, transcript } = (await server.get("/chat/sessions/waits")).json;
      return phase === "idle" ? transcript.at(-1) : undefined;
    });
    assert.equal(last.content, "It is 42.");
  });

  test("STREAM-010 a mere listener may come and go", async () => {
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
