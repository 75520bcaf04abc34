// On a machine with one or two cores the main thread also runs turns, and a conversation works the same.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { turn } from "../support/chat.ts";
import { HttpClient } from "../support/http-client.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { type LocalServer, manifestEnv, modelEnv, startInProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

describe("a server whose main thread runs the turns", () => {
  const atEnd = cleanup();
  let server: LocalServer;
  let mock: MockModel;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    const models = ["mock-text", "mock-tools", "mock-hang-between", "mock-paced-10"];
    const agents = {
      talking: { model: { id: "mock-text" } },
      calculating: { model: { id: "mock-tools" }, tools: ["calculator"] },
      pacing: { model: { id: "mock-paced-10" } },
      hanging: { model: { id: "mock-hang-between" } },
    };
    server = await startInProcess({
      atEnd,
      cores: 2,
      env: { ...modelEnv(mock, models), ...manifestEnv(atEnd, agents), SVC_ACTOR_THREADS: "0", SVC_HTTP_THREADS: "0" },
    });
  });

  test("starts no actor thread", async () => {
    assert.deepEqual(await server.system.metrics(), []);
  });

  test("answers, streams and calls tools", async () => {
    const answer = await server.post("/chat", turn("talking", "hi", { thread_id: "json" }));
    const stream = await server.stream("/chat/stream", turn("calculating", "hi", { thread_id: "stream" }));
    const names = (await stream.rest()).map(({ name }) => name);

    assert.deepEqual([answer.status, answer.json.final.content], [200, "Hello from the mock."]);
    assert.ok(names.includes("tool_start") && names.includes("tool_end"));
    assert.deepEqual(names.slice(-2), ["done", "[DONE]"]);
  });

  test("lets clients listen to a live turn, whose abort ends it for all of them", async () => {
    const stream = await server.stream("/chat/stream", turn("hanging", "hi", { thread_id: "live" }));
    await stream.until("text_delta");
    const listener = await server.listen("/chat/stream/live");
    await listener.until("session_progress");

    const { json } = await server.post("/chat/abort", { thread_id: "live" });

    assert.equal(json.aborted, true);
    assert.ok((await stream.rest()).some(({ name }) => name === "aborted"));
    const committed = await listener.until("session_event");
    listener.close();
    assert.equal(committed.json.data.role, "assistant");
  });

  test("sends everything once and in order, in fewer frames under overload", async () => {
    const stop = keepBusy(9);
    const stream = await server.stream("/chat/stream", turn("pacing", "hi", { thread_id: "busy" }));
    await stream.until("text_delta");
    const listener = await server.listen("/chat/stream/busy");
    const heard = (async () => {
      let text = "";
      for (;;) {
        const frame = await listener.next();
        if (frame?.name === "text_delta") text += frame.json.data.delta;
        if (frame?.name === "session_event" && frame.json.data.role === "assistant") return text;
      }
    })();
    const frames = await stream.rest();
    stop();

    const said = frames.filter(({ name }) => name === "text_delta").map(({ json }) => json.data.delta);
    const final = frames.find(({ name }) => name === "done")?.json.data.final.content;
    assert.ok(final.endsWith(said.join("")), "what was said is how the answer ends");
    assert.equal(await heard, final);
    assert.ok(said.length < 40, `${said.length} pieces for 64 tokens`);
    assert.ok(frames.findLastIndex(({ name }) => name === "text_delta") < frames.findIndex(({ id }) => id !== null));
    listener.close();
  });

  test("counts what the turns count, once", async () => {
    const before = await runs();
    await server.post("/chat", turn("talking", "hi"));

    assert.equal((await runs()) - before, 1);

    async function runs(): Promise<number> {
      const { text } = await server.get("/metrics");
      return Number(/^svc_runs_total\{manifest_id="talking",outcome="ok"\} (\d+)$/m.exec(text)?.[1] ?? 0);
    }
  });

  test("drains: a live turn ends as interrupted, and the next server has its thread", async () => {
    // A separate client that closes its connections before the server stops.
    const client = new HttpClient(() => server.url);
    atEnd.after(() => client.close());
    const stream = await client.stream("/chat/stream", turn("hanging", "hi", { thread_id: "drained" }));
    await stream.until("text_delta");
    const rest = stream.rest();

    await server.stop();

    assert.deepEqual((await rest).map(({ name }) => name).slice(-2), ["error", "[DONE]"]);
    const next = await startInProcess({ atEnd, dataDir: server.dataDir });
    const { transcript, phase } = (await next.get("/chat/sessions/drained")).json;
    assert.equal(phase, "idle");
    assert.equal(transcript.at(-1).metadata.type, "run_interrupted");
  });
});

/**
 * Occupies this thread, shared with the server, for this long in each turn of its event loop. Returns a function that
 * stops it.
 */
function keepBusy(turnMs: number): () => void {
  let busy = true;
  const work = (): void => {
    for (const until = performance.now() + turnMs; performance.now() < until; );
    if (busy) setImmediate(work);
  };
  work();
  return () => {
    busy = false;
  };
}
