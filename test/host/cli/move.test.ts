// svc move: a real install on SQLite, copied to Postgres, and a server there.
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { systemEnv } from "../../../bus/env.ts";
import { migrations } from "../../../storage/migrations/list.ts";
import { MoveRefused, moveInstall } from "../../../storage/move-install.ts";
import { openFsStore } from "../../../storage/objects/fs.ts";
import { openMemoryStore } from "../../../storage/objects/memory.ts";
import { s3Settings } from "../../support/buckets.ts";
import { eventually } from "../../support/eventually.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../../support/postgres.ts";
import { onServer, testPool } from "../../support/postgres-server.ts";
import { waitFor } from "../../support/postgres-writer.ts";
import { startS3Server } from "../../support/s3-server.ts";
import { type Env, manifestEnv, startServerProcess } from "../../support/server.ts";
import { tcpProxy } from "../../support/tcp-proxy.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { ask, auth, fill, historyOf, keys } from "./backed-up.ts";
import { said } from "./chat/talking.ts";

const skip = (await hasPostgresServer()) ? false : needsServer;

describe("svc move", { skip }, () => {
  const atEnd = cleanup();
  let dir: string;
  let env: Env;
  let fileId: string;
  let history: unknown;
  let approvals: { approval_id: string }[];
  let usage: unknown;
  before(async () => {
    const guarded = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] };
    env = { ...auth, ...manifestEnv(atEnd, { guarded }) };
    const server = await startServerProcess({ atEnd, env });
    dir = server.dataDir;
    fileId = await fill(server);
    // The turn waits for the approval until the server ends.
    const waiting = ask(server, "waits", "6 * 7?", "guarded").catch(() => null);
    const document = { title: "Returns", text: "Goods may be returned within thirty days." };
    assert.ok((await server.post("/documents", document, { key: keys.alice })).status < 300);
    history = await historyOf(server, "kept");
    approvals = await eventually("an approval", async () => {
      const { items } = (await server.get("/approvals", { key: keys.alice })).json as { items: typeof approvals };
      return items.length > 0 ? items : undefined;
    });
    usage = (await server.get("/usage/summary", { key: keys.alice })).json.totals;
    const running = await said(["move", "--from", `sqlite:${dir}`, "--to", "postgres://nobody@127.0.0.1:9/x"], {
      atEnd,
    });
    assert.deepEqual([running.code, /another process uses the data directory/.test(running.stderr)], [2, true]);
    await server.stop();
    await waiting;
  });

  const move = (to: string, more: Env = {}, argv: readonly string[] = []) =>
    said(["move", "--from", `sqlite:${dir}`, "--to", to, ...argv], { atEnd, env: more });

  test("copies threads, runs, files, manifests, usage and waits to a server on Postgres", async () => {
    const { url } = await testDatabase(atEnd);
    const bucket = await startS3Server(atEnd);
    const elsewhere = join(tempDir(atEnd), "data");
    const target = { ...s3Settings(bucket.url), SVC_DATA_DIR: elsewhere } as Env;

    const moved = await move(url, target);
    const again = await move(url, target);
    const server = await startServerProcess({
      atEnd,
      env: { ...env, ...target, SVC_DATABASE_URL: url },
      dataDir: elsewhere,
    });

    assert.equal(moved.code, 0, moved.stderr);
    assert.match(
      moved.stdout,
      /^Moved and verified: \d+ rows of \d+ tables and 5 objects, in .* s\.\nStart no server on /,
    );
    assert.deepEqual(
      [again.code, /the target has data of tenants already/.test(again.stderr)],
      [2, true],
      again.stderr,
    );
    assert.deepEqual(await historyOf(server, "kept"), history);
    const file = await server.get(`/files/${fileId}`, { key: keys.alice });
    assert.equal(file.status, 200);
    assert.equal((await server.get("/manifests/own", { key: keys.alice })).status, 200);
    assert.deepEqual((await server.get("/usage/summary", { key: keys.alice })).json.totals, usage);
    const open = (await server.get("/approvals", { key: keys.alice })).json.items as typeof approvals;
    assert.deepEqual(
      open.map(({ approval_id }) => approval_id),
      approvals.map(({ approval_id }) => approval_id),
    );
    const [first] = open;
    const decided = await server.post(
      `/approvals/${first?.approval_id}/decide`,
      { decision: "approved" },
      { key: keys.alice },
    );
    assert.equal(decided.status, 200, decided.text);
    assert.equal((await ask(server, "kept", "And 2 + 3?")).status, 200);
    const hits = await server.get("/chat/sessions/search?q=Gr%C3%BC%C3%9Fe", { key: keys.alice });
    assert.match(hits.text, /kept/);
    const found = await server.get("/documents/search?q=returned%20goods", { key: keys.alice });
    assert.match(found.text, /thirty days/);
  });

  test("continues after an interruption, and no server starts before its end", async () => {
    const { url } = await testDatabase(atEnd);
    const proxy = await tcpProxy(url, atEnd);
    const migrated = await said(["migrate"], { atEnd, env: { SVC_DATABASE_URL: url, SVC_DATA_DIR: tempDir(atEnd) } });
    assert.equal(migrated.code, 0, migrated.stderr);
    const objects = { SVC_OBJECT_STORE_PATH: join(tempDir(atEnd), "objects") };

    const interrupted = await onServer(url, async (client) => {
      await client.query("BEGIN; LOCK TABLE usage IN ROW EXCLUSIVE MODE");
      const moving = move(proxy.url(url), objects);
      const isWaiting = waitFor(async () =>
        onServer(url, async (other) => {
          const { rows } = await other.query(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
          );
          return rows.length > 0;
        }),
      );
      await Promise.race([isWaiting, moving]);
      proxy.cut();
      const outcome = await moving;
      await client.query("ROLLBACK");
      return outcome;
    });
    const served = await said(["serve"], {
      atEnd,
      env: { ...auth, SVC_DATABASE_URL: url, SVC_DATA_DIR: tempDir(atEnd), SVC_PORT: "0" },
    });
    const continued = await move(url, objects, ["--json"]);

    assert.equal(interrupted.code, 1);
    assert.match(interrupted.stderr, /run the same command again to continue/);
    assert.match(served.stderr, /an interrupted restore or move left the database incomplete/);
    assert.equal(continued.code, 0, continued.stderr);
    assert.equal(JSON.parse(continued.stdout).isContinued, true);
    assert.equal(JSON.parse(continued.stdout).objects, 5);
  });

  test("keeps the tables of another application in the schema", async () => {
    const { url } = await testDatabase(atEnd);
    const migrated = await said(["migrate"], { atEnd, env: { SVC_DATABASE_URL: url, SVC_DATA_DIR: tempDir(atEnd) } });
    assert.equal(migrated.code, 0, migrated.stderr);
    await onServer(url, (client) =>
      client.query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT); INSERT INTO orders VALUES (1, 'a lamp')"),
    );

    const moved = await move(url, { SVC_OBJECT_STORE_PATH: join(tempDir(atEnd), "objects") });

    assert.equal(moved.code, 0, moved.stderr);
    const kept = await onServer(url, (client) => client.query("SELECT id, item FROM orders"));
    assert.deepEqual(kept.rows, [{ id: 1, item: "a lamp" }]);
  });

  test("notices that the source has changed since an interrupted move began", async () => {
    const { url } = await testDatabase(atEnd);
    const copy = join(tempDir(atEnd), "svc.db");
    copyFileSync(join(dir, "svc.db"), copy);
    const failing = { ...openMemoryStore(), put: () => Promise.reject(new Error("the disk is full")) };
    const from = openFsStore(join(dir, "objects"), systemEnv());
    const once = (to: typeof failing | null) =>
      moveInstall({ from: copy, to: testPool(url), objects: to && { from, to }, known: migrations });

    await assert.rejects(once(failing), /the disk is full/);
    const db = new Database(copy);
    db.exec("UPDATE threads SET suffix = suffix || 'x' WHERE thread_key = (SELECT MIN(thread_key) FROM threads)");
    db.close();

    await assert.rejects(once(null), /threads differs between source and target/);
  });

  test("refuses a source that is missing, new or of another version, and a wrong target", async () => {
    const { url } = await testDatabase(atEnd);
    const strange = join(tempDir(atEnd), "svc.db");
    copyFileSync(join(dir, "svc.db"), strange);
    const db = new Database(strange);
    db.exec("INSERT INTO schema_revisions VALUES ('0999', 'later', 1)");
    db.close();

    const cases: [argv: string[], code: number, text: RegExp][] = [
      [["--to", url], 2, /--from must be sqlite:DIR/],
      [["--from", dir, "--to", url], 2, /--from must be sqlite:DIR/],
      [["--from", `sqlite:${tempDir(atEnd)}`, "--to", url], 2, /svc\.db does not exist/],
      [["--from", `sqlite:${dir}`, "--to", "sqlite:///x.db"], 2, /must be a postgres:\/\/ URL/],
      [["--from", `sqlite:${dir}`, "--to", "postgres://svc:a-secret-word@127.0.0.1:9/x"], 1, /ECONNREFUSED/],
    ];
    for (const [argv, code, text] of cases) {
      const outcome = await said(["move", ...argv], { atEnd });
      assert.equal(outcome.code, code, outcome.stderr);
      assert.match(outcome.stderr, text);
      assert.doesNotMatch(outcome.stderr, /a-secret-word/);
    }
    await assert.rejects(
      moveInstall({ from: strange, to: testPool(url), objects: null, known: migrations }),
      (error: Error) => error instanceof MoveRefused && /revision 0999/.test(error.message),
    );
  });
});
