// A store that stalls for longer than a request waits and then recovers: a run that it accepts late still runs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import SqliteDatabase from "better-sqlite3";
import { says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { onServer } from "../support/postgres-server.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { brief, type Database, databaseOf, skipPostgres, snapshotOf } from "./support.ts";

/** Blocks writes of the acceptance of durable runs. The returned function ends the block. */
async function hold({ env }: Database, { dataDir }: ProcessServer): Promise<() => Promise<void>> {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  if (env.SVC_DATABASE_URL === undefined) {
    const db = new SqliteDatabase(join(dataDir, "svc.db"), { timeout: 10_000 });
    db.exec("BEGIN IMMEDIATE");
    return async () => {
      db.exec("ROLLBACK");
      db.close();
    };
  }
  const held = Promise.withResolvers<void>();
  const over = onServer(env.SVC_DATABASE_URL, async (client) => {
    await client.query("BEGIN");
    await client.query("LOCK TABLE fibers IN EXCLUSIVE MODE");
    held.resolve();
    await released;
    await client.query("ROLLBACK");
  });
  await held.promise;
  return async () => {
    release();
    await over;
  };
}

for (const dialect of gateDialects) {
  describe(`an acceptance that the store carries out late, on ${dialect}`, {
    skip: dialect === "postgres" && skipPostgres,
  }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let database: Database;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      mock.answer("durable", says("Done."));
      database = await databaseOf(dialect, atEnd);
      const env = {
        ...modelEnv(mock, ["durable", "plain"]),
        ...manifestEnv(atEnd, {
          durable: { model: { id: "durable" }, execution: { mode: "durable" } },
          plain: { model: { id: "plain" } },
        }),
        ...database.env,
      };
      server = await startServerProcess({ atEnd, env });
    });

    test("is a run that continues alone, once, although its client got 503", async () => {
      // Thread numbers are allocated from the store in blocks, so take a block first.
      await server.post("/chat", turn("plain", "takes a block", { thread_id: "before" }));
      const release = await hold(database, server);
      // SQLite waits five seconds for another writer's lock, and each later batch waits again. The model is called in
      // parallel to a turn's first batch.
      const first = server.post("/chat", turn("plain", "occupies the store", { thread_id: "first" }));
      await eventually("a batch on its way", async () => mock.requests[1]);
      const asked = turn("durable", "go", { thread_id: "late" });
      const refused = await server.post("/chat", asked, { headers: { "Idempotency-Key": "once" } });
      const before = mock.requests.filter(({ body }) => body.model === "durable").length;
      await release();
      await first;

      const [run] = await eventually("the end of the run", async () => {
        const { items } = (await server.get("/runs?status=completed")).json;
        return items.length > 0 ? items : undefined;
      });
      const again = await server.post("/chat", asked, { headers: { "Idempotency-Key": "once" } });
      const { transcript } = await snapshotOf(server, "late");

      assert.deepEqual([refused.status, refused.json.error], [503, "storage_unavailable"]);
      assert.equal(before, 0);
      assert.deepEqual(transcript.map(brief), ["user: go", "assistant: Done."]);
      assert.equal(mock.requests.filter(({ body }) => body.model === "durable").length, 1);
      assert.deepEqual([again.status, again.json.resume_token], [202, run.run_id]);
    });
  });
}
