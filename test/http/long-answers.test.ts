// Bodies that are made in pieces: failures before and after the first piece, and the bytes that a client receives.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { appendOp, eventId, threadUid } from "../../storage/tables/events.ts";
import { insertThreadOp } from "../../storage/tables/threads.ts";
import { eventually } from "../support/eventually.ts";
import { hasPostgresServer, needsServer, type TestDatabase, testDatabase } from "../support/postgres.ts";
import { seed } from "../support/seed.ts";
import { type ProcessServer, startServerProcess } from "../support/server.ts";
import { type TcpProxy, tcpProxy } from "../support/tcp-proxy.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;
const uid = threadUid("0123456789abcdef0123456789abcdef");
const eventCount = 700;
const at = 1_780_000_000_000;

describe("a long answer", { skip }, () => {
  const atEnd = cleanup();
  let database: TestDatabase;
  let proxy: TcpProxy;
  let server: ProcessServer;
  before(async () => {
    database = await testDatabase(atEnd);
    // One page exceeds what the connection buffers without a reader.
    const content = "x".repeat(50_000);
    await seed({ engine: "postgres", postgres: database.config }, "default", (tenant) => [
      insertThreadOp(tenant, {
        thread_key: 1_000_000,
        suffix: "long",
        uid,
        created_at: at,
        updated_at: at,
        next_seq: eventCount,
        leaf_seq: eventCount - 1,
        bytes: 0,
        revision: 1,
        epoch: 0,
        manifest: "quick",
        model_id: "demo",
        session_name: null,
        preview: null,
        parent_session_id: null,
        meta: {},
      }),
      ...Array.from({ length: eventCount }, (_, seq) =>
        appendOp(tenant, 1_000_000, {
          seq,
          parent_seq: seq - 1,
          ts: at + seq,
          kind: "message",
          role: seq % 2 === 0 ? "user" : "assistant",
          content,
          extra: null,
        }),
      ),
    ]);
    proxy = await tcpProxy(database.url, atEnd);
    server = await startServerProcess({
      atEnd,
      env: { SVC_DATABASE_URL: proxy.url(database.url), SVC_DB_POOL_TIMEOUT_SECONDS: "0.3" },
    });
  });

  test("arrives complete, over any number of pages", async () => {
    const { status, json } = await server.get("/chat/sessions/long");

    assert.equal(status, 200);
    assert.equal(json.transcript.length, eventCount);
    assert.equal(json.leafId, eventId(uid, eventCount - 1));
  });

  test("that fails midway is cut off, so no client takes it for whole", async () => {
    const stream = await server.listen("/chat/sessions/long");
    proxy.cut();
    let text = "";
    const reading = (async () => {
      for await (const piece of stream.bytes()) text += piece;
    })();

    await assert.rejects(reading, { code: "ECONNRESET" });

    assert.equal(stream.status, 200);
    assert.throws(() => JSON.parse(text));
    assert.ok(server.logs.some(({ msg }) => msg === "a reply was cut off while it was sent"));
    assert.equal((await server.get("/health")).status, 200);
    proxy.restore();
    await eventually("a server that is ready", async () => (await server.get("/ready")).status === 200 || undefined);
  });

  test("that cannot start is an ordinary refusal", async () => {
    proxy.cut();

    const snapshot = await server.get("/chat/sessions/never-seen");
    const exported = await server.get("/audit/export");

    for (const { status, json, headers } of [snapshot, exported]) {
      assert.deepEqual([status, json], [503, { error: "storage_unavailable", detail: "storage_unavailable" }]);
      assert.equal(headers["content-type"], "application/json");
    }
    proxy.restore();
    await eventually("a server that is ready", async () => (await server.get("/ready")).status === 200 || undefined);
  });

  test("whose client leaves in the middle has no effect on others", async () => {
    for (let round = 0; round < 5; round++) {
      const stream = await server.listen("/chat/sessions/long");
      stream.close();
    }

    const { status, json } = await server.get("/chat/sessions/long");

    assert.deepEqual([status, json.transcript.length], [200, eventCount]);
  });
});
