// A running server loses its data directory: it acknowledges nothing more, and does not disturb a server that starts on
// the path.
import assert from "node:assert/strict";
import { once } from "node:events";
import { cpSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { describe, test } from "node:test";
import { calls, gate, inTurn, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { brief, databaseOf, obedient, snapshotOf } from "./support.ts";

const unavailable = { error: "storage_unavailable", detail: "storage_unavailable" };

async function start(atEnd: Cleanup, dataDir?: string): Promise<{ server: ProcessServer; mock: MockModel }> {
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  mock.answer("obedient", obedient());
  const env = { ...modelEnv(mock, ["obedient"]), ...manifestEnv(atEnd, { agent: { model: { id: "obedient" } } }) };
  return { server: await startServerProcess({ atEnd, env, ...(dataDir !== undefined && { dataDir }) }), mock };
}

function say(server: ProcessServer, words: string, thread_id = "t") {
  return server.post("/chat", turn("agent", `say ${words}`, { thread_id }));
}

/** Asserts the refusals of a server without its files, on all routes to them and on /ready. */
async function assertLost(server: ProcessServer): Promise<void> {
  // The result of one check of the files is cached for a moment.
  await eventually("a look", async () => (await server.get("/chat/history/t")).status === 503);
  const reads = [await server.get("/chat/history/t"), await server.get("/chat/sessions/search?q=kept")];

  for (const { status, json } of reads) assert.deepEqual([status, json], [503, unavailable]);
  await assertTakesNothing(server);
}

async function assertTakesNothing(server: ProcessServer): Promise<void> {
  const answers = [await say(server, "lost"), await say(server, "lost", "fresh")];
  const ready = await server.get("/ready");

  for (const { status, json } of answers) assert.deepEqual([status, json], [503, unavailable]);
  assert.deepEqual([ready.status, ready.json.status], [503, "not_ready"]);
  const { ok, detail } = ready.json.checks.database;
  assert.deepEqual([ok, detail], [false, "storage_unavailable"]);
  assert.equal((await server.get("/live")).status, 200);
}

async function transcriptOf(server: ProcessServer, thread: string): Promise<string[]> {
  return (await snapshotOf(server, thread)).transcript.map(brief);
}

describe("a server whose data directory is", () => {
  test("removed answers 503, and a server that starts on the path owns it", async (t) => {
    const atEnd = cleanup(t);
    const { server, mock } = await start(atEnd);
    assert.equal((await say(server, "kept")).status, 200);
    const more = gate();
    mock.answer("obedient", says("half ", more.opened, "whole"));
    const stream = await server.stream("/chat/stream", turn("agent", "go on", { thread_id: "live" }));
    await stream.until("text_delta");
    mock.answer("obedient", obedient());

    rmSync(server.dataDir, { recursive: true });
    more.open();

    assert.deepEqual(
      (await stream.rest()).slice(-2).map(({ name }) => name),
      ["error", "[DONE]"],
    );
    await assertLost(server);

    const { server: next } = await start(atEnd, server.dataDir);
    assert.equal((await say(next, "mine")).status, 200);
    await assertLost(server);
    assert.deepEqual((await server.stop()).code, 0);
    await say(next, "more");
    await next.kill();
    await next.restart();

    assert.deepEqual(await transcriptOf(next, "t"), [
      "user: say mine",
      "assistant: mine",
      "user: say more",
      "assistant: more",
    ]);
    assert.equal(
      server.logs.find(({ msg }) => msg === "the store does not accept writes")?.reason,
      `${server.dataDir}/svc.db was removed or replaced`,
    );
  });

  test("without its lock does not write next to a new owner of the directory", async (t) => {
    const atEnd = cleanup(t);
    const { server } = await start(atEnd);
    await say(server, "kept");

    rmSync(join(server.dataDir, "svc.lock"));
    const { server: next } = await start(atEnd, server.dataDir);

    await assertLost(server);
    await say(next, "mine");
    assert.deepEqual(await transcriptOf(next, "t"), [
      "user: say kept",
      "assistant: kept",
      "user: say mine",
      "assistant: mine",
    ]);
  });

  test("replaced by another one does not take that one's rows for its own", async (t) => {
    const atEnd = cleanup(t);
    const { server } = await start(atEnd);
    await say(server, "kept");
    const aside = `${server.dataDir}-aside`;
    atEnd.after(() => rmSync(aside, { recursive: true, force: true }));

    cpSync(server.dataDir, aside, { recursive: true });
    rmSync(server.dataDir, { recursive: true });
    renameSync(aside, server.dataDir);

    await assertLost(server);
  });

  test("moved away works again once it is back", async (t) => {
    const atEnd = cleanup(t);
    const { server } = await start(atEnd);
    await say(server, "kept");
    const aside = `${server.dataDir}-aside`;

    renameSync(server.dataDir, aside);
    await assertLost(server);
    renameSync(aside, server.dataDir);

    await eventually("ready", async () => (await server.get("/ready")).status === 200);
    assert.equal((await say(server, "again")).status, 200);
    assert.deepEqual(await transcriptOf(server, "t"), [
      "user: say kept",
      "assistant: kept",
      "user: say again",
      "assistant: again",
    ]);
  });

  test("moved away during parallel calls ends their run and closes it once it is back", async (t) => {
    const atEnd = cleanup(t);
    const mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("obedient", inTurn(calls(["chaos_note", { run: 0 }], ["chaos_note", { run: 1 }]), says("Done.")));
    const gates = [gate(), gate()];
    const asked = gates.map(() => gate());
    const recorder = createServer(async (request, response) => {
      const { run } = (await json(request)) as { run: number };
      asked[run]?.open();
      await gates[run]?.opened;
      response.end();
    });
    recorder.listen(0, "127.0.0.1");
    await once(recorder, "listening");
    atEnd.after(() => void recorder.close());
    const manifest = { model: { id: "obedient" }, tools: ["chaos_note"], execution: { tools: "parallel" } };
    const server = await startServerProcess({
      atEnd,
      env: {
        ...{ ...modelEnv(mock, ["obedient"]), ...manifestEnv(atEnd, { agent: manifest }) },
        SVC_PLUGINS: "./plugins/chaos/chaos.ts",
        SVC_CHAOS_RECORDER_URL: `http://127.0.0.1:${(recorder.address() as AddressInfo).port}/`,
      },
    });
    const { rows } = await databaseOf("sqlite", atEnd);
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "t" }));
    await Promise.all(asked.map(({ opened }) => opened));
    const aside = `${server.dataDir}-aside`;

    renameSync(server.dataDir, aside);
    for (const { open } of gates) {
      open();
      assert.equal((await server.get("/live")).status, 200);
    }
    const frames = await stream.rest();
    assert.equal((await server.get("/live")).status, 200);
    renameSync(aside, server.dataDir);

    assert.deepEqual(
      frames.slice(-2).map(({ name }) => name),
      ["error", "[DONE]"],
    );
    await eventually("the end of the run", async () => {
      const [run] = await rows("SELECT status FROM runs", server.dataDir);
      return run?.status === "failed";
    });
    const results = (await snapshotOf(server, "t")).transcript.filter(({ kind }) => kind === "tool_result");
    assert.deepEqual(
      results.map(({ content }) => content),
      Array(2).fill("[tool error/interrupted] outcome unknown: it may have run (once)"),
    );
  });

  test("without its write-ahead log loses nothing that was acknowledged", async (t) => {
    const atEnd = cleanup(t);
    const { server } = await start(atEnd);
    await say(server, "kept");

    rmSync(join(server.dataDir, "svc.db-wal"));
    await assertTakesNothing(server);
    await server.restart();

    assert.deepEqual(await transcriptOf(server, "t"), ["user: say kept", "assistant: kept"]);
  });
});
