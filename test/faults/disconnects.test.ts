// Clients that disconnect at every byte of their request and of their answer. Other clients notice nothing, and a turn
// whose request arrived whole runs to its end.
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { before, describe, test } from "node:test";
import { gate, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { httpEngine, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { brief, snapshotOf } from "./support.ts";

/** Ways to disconnect: half-close, close, and reset. */
const leavings = ["end", "destroy", "resetAndDestroy"] as const;
type Leaving = (typeof leavings)[number];

/**
 * Sends `sent`. Disconnects after this many bytes of the answer (at once for 0), or after this text. Resolves with the
 * received bytes.
 */
function leave(url: string, sent: string, until: number | string, how: Leaving): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(Number(port), hostname);
    const go = (): void => {
      socket.removeAllListeners("data");
      if (how === "end") socket.end();
      else socket[how]();
      // A half-closed client still receives, and then disconnects for good.
      if (how === "end") setImmediate(() => socket.destroy());
    };
    socket.on("error", reject);
    socket.on("close", () => resolve(answer));
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      if (typeof until === "number" ? answer.length >= until : answer.includes(until)) go();
    });
    socket.write(sent, "latin1", () => {
      if (until === 0) go();
    });
  });
}

function requestText(method: string, path: string, body?: object, more: readonly string[] = []): string {
  const text = body === undefined ? "" : JSON.stringify(body);
  const headers = [`${method} ${path} HTTP/1.1`, "host: localhost", ...more];
  if (body !== undefined) headers.push("content-type: application/json", `content-length: ${text.length}`);
  return `${headers.join("\r\n")}\r\n\r\n${text}`;
}

describe("disconnecting clients", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let answerLength: number;
  const ending = gate();
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("brief", says("one ", "two ", "three ", "four"));
    // Ends only when the test ends it.
    mock.answer("hanging", says("one ", never));
    mock.answer("gated", says("one ", ending.opened, "two"));
    const models = ["brief", "hanging", "gated"];
    const agents = { agent: "brief", hanging: "hanging", gated: "gated" };
    const manifests = Object.fromEntries(Object.entries(agents).map(([name, id]) => [name, { model: { id } }]));
    server = await startServerProcess({ atEnd, env: { ...modelEnv(mock, models), ...manifestEnv(atEnd, manifests) } });
    const whole = await server.stream("/chat/stream", turn("agent", "hello", { thread_id: "whole" }));
    await whole.rest();
    answerLength = whole.text.length;
  });

  const chat = (path: string, thread_id: string): string =>
    requestText("POST", path, turn("agent", "hello", { thread_id }));

  /** Waits until no stream is open and no run is live. */
  async function untilQuiet(): Promise<void> {
    await eventually("a quiet server", async () => {
      const { text } = await server.get("/metrics");
      const value = (name: string): number => Number(text.match(new RegExp(`^${name} (\\d+)$`, "m"))?.[1]);
      return value("svc_open_streams") === 0 && value("svc_live_runs") === 0;
    });
    assert.deepEqual(
      server.logs.filter(({ level }) => level === "error" || level === "fatal"),
      [],
    );
  }

  async function untilAnswered(thread: string): Promise<void> {
    const { transcript } = await eventually(`the turn of ${thread}`, async () => {
      const seen = await snapshotOf(server, thread);
      return seen.phase === "idle" && seen.transcript.length >= 2 ? seen : undefined;
    });
    assert.deepEqual(transcript.map(brief), ["user: hello", "assistant: one two three four"], thread);
  }

  for (const path of ["/chat", "/chat/stream"]) {
    test(`${path}: a cut request starts nothing, and a whole one runs its turn`, async () => {
      const cuts: { thread: string; whole: boolean }[] = [];
      const name = path.replaceAll("/", "-").slice(1);
      for (let at = 0; ; at += 9) {
        const how = leavings[cuts.length % leavings.length] as Leaving;
        const thread = `${name}-${String(at).padStart(4, "0")}`;
        const request = chat(path, thread);
        const whole = at >= request.length;
        cuts.push({ thread, whole });
        // A reset discards bytes that the server has not read, so the request may not have arrived.
        await leave(server.url, request.slice(0, at), 0, whole ? "end" : how);
        if (whole) break;
      }

      assert.ok(cuts.length > 15);
      for (const { thread, whole } of cuts)
        if (whole) await untilAnswered(thread);
        else assert.deepEqual((await snapshotOf(server, thread)).transcript, [], thread);
      await untilQuiet();
    });
  }

  for (const how of leavings) {
    test(`by ${how}, anywhere in a stream: the turn runs to its end`, async () => {
      const threads: string[] = [];
      for (let bytes = 1; bytes < answerLength; bytes += Math.ceil(answerLength / 20)) {
        const thread = `${how}-${bytes}`;
        threads.push(thread);
        const seen = await leave(server.url, chat("/chat/stream", thread), bytes, how);
        assert.match(seen, /^HTTP\/1\.1 200 OK\r\n/);
      }

      assert.ok(threads.length >= 19);
      for (const thread of threads) await untilAnswered(thread);
      await untilQuiet();
    });

    test(`by ${how}, during an answer from the store`, async () => {
      const paths = [
        "/chat/stream/whole",
        "/chat/sessions/whole",
        "/chat/history/whole",
        "/chat/sessions",
        "/chat/sessions/search?q=hello",
        "/audit/export",
        "/usage/summary",
        "/openapi.json",
        "/docs",
      ];
      for (const path of paths)
        for (const bytes of [0, 1, 100]) await leave(server.url, requestText("GET", path), bytes, how);

      await untilQuiet();
      const answer = await server.post("/chat", turn("agent", "hello", { thread_id: `after-${how}` }));
      assert.equal(answer.status, 200);
    });
  }

  type Asked = MockModel["requests"][number];

  /** The next request to a model, once it has arrived. */
  function nextOf(model: string): () => Promise<Asked> {
    const all = () => mock.requests.filter((request) => request.model === model);
    const earlier = all().length;
    return () =>
      eventually(`${model} is asked`, async () => {
        await server.get("/health");
        return all()[earlier];
      });
  }

  async function untilGone(request: Asked): Promise<void> {
    let ended = "";
    void request.ended.then((how) => {
      ended = how;
    });
    await eventually("the model is left", async () => {
      await server.get("/health");
      return ended === "gone" || undefined;
    });
  }

  const stateless = (path: string, manifest = "hanging", headers: string[] = []): string =>
    requestText("POST", path, turn(manifest, "hello"), headers);

  /** Sends a request without waiting for its answer. */
  function send(text: string): Socket {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    socket.write(text);
    return socket;
  }

  for (const how of leavings) {
    test(`by ${how}, from a stream without a thread: turn and model call end`, async () => {
      const asked = nextOf("hanging");

      await leave(server.url, stateless("/chat/stream"), "one ", how);

      await untilGone(await asked());
      await untilQuiet();
    });

    test(`by ${how}, before the answer of a turn without a thread: turn and model call end`, async () => {
      const asked = nextOf("hanging");
      const socket = send(stateless("/chat"));
      const request = await asked();

      // uWebSockets.js treats a half-closed client as gone; Node's server still answers it.
      if (how !== "end") socket[how]();
      else socket.end(() => httpEngine === "node" && socket.destroy());

      await untilGone(request);
      await untilQuiet();
    });
  }

  test("before the run exists: a turn without a thread ends too", async () => {
    for (const path of ["/chat", "/chat/stream"])
      for (let at = 0; at < 10; at++) await leave(server.url, stateless(path), 0, "end");

    await untilQuiet();
  });

  test("with an Idempotency-Key: a turn without a thread ends normally for a resend", async () => {
    const asked = nextOf("gated");
    const headers = { "idempotency-key": "left-alone" };
    const socket = send(stateless("/chat", "gated", ["idempotency-key: left-alone"]));
    const request = await asked();

    socket.destroy();
    // The client sends after the server has noticed its disconnect.
    await leave(server.url, stateless("/chat"), 0, "end");
    await eventually("its run alone", async () => {
      const { text } = await server.get("/metrics");
      return /^svc_live_runs 1$/m.test(text) || undefined;
    });
    const early = await server.post("/chat", turn("gated", "hello"), { headers });
    ending.open();
    await untilQuiet();
    const late = await server.post("/chat", turn("gated", "hello"), { headers });

    assert.deepEqual([early.status, early.json.error], [409, "idempotency_in_progress"]);
    assert.deepEqual([late.status, late.json.final?.content], [200, "one two"]);
    assert.equal(late.headers["idempotent-replayed"], "true");
    assert.equal(await request.ended, "sent");
  });
});
