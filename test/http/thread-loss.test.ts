// A worker thread that dies under its turns: waiting clients get an error, and the server continues with another
// thread.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { type LocalServer, manifestEnv, modelEnv, startInProcess, startServerProcess } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

/** The first node with actors if one thread speaks HTTP. */
const actorNode = 1;
/** The server gives up if the first thread dies before it has answered, so wait this long. */
const livesAtLeastMs = 2_000;

describe("an actor thread that dies", () => {
  const atEnd = cleanup();
  let server: LocalServer;
  let mock: MockModel;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    const models = ["mock-hang-between", "mock-text"];
    const agents = { hanging: { model: { id: "mock-hang-between" } }, talking: { model: { id: "mock-text" } } };
    server = await startInProcess({ atEnd, env: { ...modelEnv(mock, models), ...manifestEnv(atEnd, agents) } });
    const startedAt = performance.now();
    await eventually("a thread of some age", async () => {
      await server.get("/ready");
      return performance.now() - startedAt > livesAtLeastMs;
    });
  });

  const body = (manifest: string, thread_id: string) => ({
    manifest,
    thread_id,
    messages: [{ role: "user", content: "hi" }],
  });

  test("ends its turns with a transient error, and the thread's next turn runs", async () => {
    const waiting = server.request("POST", "/chat", { body: body("hanging", "one") });
    await mock.next();
    const stream = await server.stream("/chat/stream", body("hanging", "two"));
    await stream.until("text_delta");

    await server.system.kill(actorNode);

    const answer = await waiting;
    assert.deepEqual([answer.status, answer.json], [503, { error: "actor_lost", detail: "actor_lost" }]);
    const frames = await stream.rest();
    assert.deepEqual(frames.map(({ name }) => name).slice(-2), ["error", "[DONE]"]);
    const [error] = frames.slice(-2);
    assert.deepEqual([error?.event, error?.json.error.type], ["error", "stream_error"]);

    const next = await eventually("a turn after it", async () => {
      const turn = await server.request("POST", "/chat", { body: body("talking", "one") });
      return turn.status === 200 ? turn : undefined;
    });
    assert.equal(next.json.final.content, "Hello from the mock.");
    const { transcript } = (await server.get("/chat/sessions/one")).json;
    assert.deepEqual(
      transcript.map(({ kind, role }: Record<string, string>) => `${kind} ${role}`),
      ["message user", "audit null", "message user", "message assistant"],
    );
  });

  test("is replaced though its first replacement died before it answered", async () => {
    await server.system.kill(actorNode);
    await server.system.kill(actorNode);

    const next = await eventually("a turn after it", async () => {
      const turn = await server.request("POST", "/chat", { body: body("talking", "three") });
      return turn.status === 200 ? turn : undefined;
    });
    assert.equal(next.json.final.content, "Hello from the mock.");
  });
});

test("OPS-007 a server whose actor threads die repeatedly ends and states the cause", async (t) => {
  const atEnd = cleanup(t);
  const mortal = join(tempDir(atEnd), "mortal.js");
  writeFileSync(
    mortal,
    `import { isMainThread } from "node:worker_threads";
     if (!isMainThread) setTimeout(() => process.exit(3), 1000);
     export const plugin = { name: "mortal", description: "x" };`,
  );

  const server = await startServerProcess({ atEnd, env: { SVC_PLUGINS: mortal }, waitForReady: false });
  const { code } = await server.exited;

  assert.equal(code, 1);
  const lost = server.logs
    .filter(({ msg }) => msg === "actor thread ended; it is started again")
    .map(({ incarnation }) => incarnation);
  assert.deepEqual(lost, [0, 1, 2, 3, 4]);
  assert.match(server.output, /actor thread 1 keeps failing/);
});
