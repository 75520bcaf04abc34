import assert from "node:assert/strict";
import { closeSync, openSync, renameSync, statSync, writeSync } from "node:fs";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import type { SvcError } from "../../bus/errors.ts";
import { migrate } from "../../storage/migrate.ts";
import { SqliteReader } from "../../storage/sqlite/reader.ts";
import { openSqliteWriter } from "../../storage/sqlite/writer.ts";
import { allStatements, type Param, statementNamed } from "../../storage/store/statements.ts";
import { createStore, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import type { WriteOutcome, Writer } from "../../storage/store/writer.ts";
import { insertAuditOp } from "../../storage/tables/audit.ts";
import { appendOp, deleteEventsOp } from "../../storage/tables/events.ts";
import { kvSetOp } from "../../storage/tables/kv.ts";
import { insertUsageOp } from "../../storage/tables/usage.ts";
import "../support/all-tables.ts";
import { emptyDatabase } from "../support/stores.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

/** Used for its `op` only. */
const tenant: TenantStore = createStore({
  inOrder: true,
  write: async () => [],
  read: async () => [],
  check: async () => {},
  close() {},
}).tenant("acme");

async function migratedPath(atEnd: Cleanup): Promise<string> {
  const config = await emptyDatabase("sqlite", atEnd);
  await migrate(config, { target: "head", downgrade: false });
  assert.ok(config.engine === "sqlite");
  return config.path;
}

/** A writer, and another connection that sees its commits. */
async function opened(atEnd: Cleanup): Promise<{ writer: Writer; other: Database.Database }> {
  const path = await migratedPath(atEnd);
  const writer = openSqliteWriter({ path });
  atEnd.after(() => writer.close());
  const other = new Database(path, { readonly: true });
  atEnd.after(() => void other.close());
  return { writer, other };
}

function batch(key: string, value: string): readonly [WriteOp] {
  return [kvSetOp(tenant, { key, value, expires_at: null }, 1)];
}

function event(seq: number): WriteOp {
  const content = `event ${seq}`;
  const run = seq % 2 === 0 ? null : seq;
  return appendOp(
    tenant,
    1,
    { seq, parent_seq: seq - 1, ts: seq, kind: "message", role: "user", content, extra: null },
    run,
  );
}

function auditRow(n: number): WriteOp {
  return insertAuditOp(tenant, {
    id: `audit${n}`,
    ts: n,
    event_type: "user_input",
    manifest_id: "m",
    principal_subj: "someone",
    status: "ok",
    payload: `{"n":${n}}`,
  });
}

function usageRow(n: number): WriteOp {
  return insertUsageOp(tenant, {
    id: `usage${n}`,
    ts: n,
    manifest_id: "m",
    model_id: "route",
    wire_model_id: "wire",
    kind: "tokens",
    tokens_input: n,
    tokens_output: 1,
    cache_creation: 0,
    cache_read: 0,
    cost_usd: 0,
    thread_id: "",
    meta_json: "{}",
  });
}

function writeAll(writer: Writer, batches: readonly (readonly WriteOp[])[]): WriteOutcome[] {
  const outcomes: WriteOutcome[] = [];
  writer.write(batches, (index, outcome) => {
    outcomes[index] = outcome;
  });
  return outcomes;
}

/** Overwrites the first page of a table. */
function damage(path: string, table: string): void {
  const db = new Database(path);
  const root = db
    .prepare<[string], number>("SELECT rootpage FROM sqlite_schema WHERE name = ?")
    .pluck()
    .get(table) as number;
  db.close();
  const file = openSync(path, "r+");
  writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, (root - 1) * 4096);
  closeSync(file);
}

function codes(outcomes: readonly WriteOutcome[]): (string | undefined)[] {
  return outcomes.map(({ error }) => error?.code);
}

describe("the SQLite writer", () => {
  for (const suffix of ["", "-wal"]) {
    test(`acknowledges nothing after svc.db${suffix} is removed, even during a commit`, async (t) => {
      const atEnd = cleanup(t);
      const path = await migratedPath(atEnd);
      const writer = openSqliteWriter({ path });
      atEnd.after(() => writer.close());
      const meanwhile = batch("b", "2");
      // A parameter that is evaluated when the statement runs.
      const [first, ...others] = meanwhile[0].params;
      const params = Object.defineProperty(["", ...others], 0, {
        get() {
          renameSync(`${path}${suffix}`, `${path}.aside`);
          return first;
        },
      });

      const before = writeAll(writer, [batch("a", "1")]);
      const during = writeAll(writer, [meanwhile.map((op) => ({ ...op, params })), batch("c", "3")]);
      const after = writeAll(writer, [batch("d", "4")]);
      await assert.rejects(writer.check(), { code: "storage_unavailable" });
      const failure = writer.failure();
      renameSync(`${path}.aside`, `${path}${suffix}`);
      await writer.check();

      assert.deepEqual(codes(before), [undefined]);
      assert.deepEqual(codes([...during, ...after]), Array(3).fill("storage_unavailable"));
      assert.equal(failure, `${path}${suffix} was removed or replaced`);
      assert.equal(writer.failure(), null);
      assert.deepEqual(codes(writeAll(writer, [batch("e", "5")])), [undefined]);
      const other = new Database(path);
      atEnd.after(() => void other.close());
      assert.ok(!other.prepare("SELECT key FROM kv").pluck().all().includes("d"), "it was written all the same");
    });
  }

  test("refuses everything while another process holds the file, and recovers", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const writer = openSqliteWriter({ path }, 50);
    atEnd.after(() => writer.close());
    const other = new Database(path);
    atEnd.after(() => void other.close());

    other.exec("BEGIN IMMEDIATE");
    const refused = writeAll(writer, [batch("a", "1"), batch("b", "2")]);
    const failure = writer.failure();
    await assert.rejects(writer.check(), { code: "storage_unavailable" });
    other.exec("COMMIT");
    await writer.check();
    const again = writeAll(writer, [batch("c", "3")]);

    assert.deepEqual(codes(refused), ["storage_unavailable", "storage_unavailable"]);
    assert.match(String(failure), /locked/);
    assert.equal(writer.failure(), null);
    assert.deepEqual(codes(again), [undefined]);
    assert.deepEqual(other.prepare("SELECT key FROM kv").pluck().all(), ["c"]);
  });

  test("a successful write ends a failure before any check does", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const writer = openSqliteWriter({ path }, 50);
    atEnd.after(() => writer.close());
    const other = new Database(path);
    atEnd.after(() => void other.close());
    other.exec("BEGIN IMMEDIATE");
    writeAll(writer, [batch("a", "1")]);
    const before = writer.failure();
    other.exec("COMMIT");

    writeAll(writer, [batch("b", "2")]);

    assert.deepEqual([before !== null, writer.failure()], [true, null]);
  });

  test("a check after a failure writes to the disk, and leaves nothing behind", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const writer = openSqliteWriter({ path }, 50);
    atEnd.after(() => writer.close());
    const other = new Database(path);
    const before = other.prepare("SELECT * FROM sqlite_schema").all();
    other.exec("BEGIN IMMEDIATE");
    writeAll(writer, [batch("a", "1")]);
    other.exec("COMMIT");
    const logBytes = statSync(`${path}-wal`).size;

    await writer.check();

    assert.ok(statSync(`${path}-wal`).size > logBytes);
    assert.deepEqual(other.prepare("SELECT * FROM sqlite_schema").all(), before);
    other.close();
  });

  test("an open reader lets the WAL grow; when it ends the WAL is reused and truncated", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const writer = openSqliteWriter({ path });
    atEnd.after(() => writer.close());
    const kept = 64 * 1024 * 1024;
    writeAll(writer, [batch("first", "1")]);
    const reader = new Database(path, { readonly: true });
    reader.exec("BEGIN");
    const seenBefore = reader.prepare("SELECT COUNT(*) FROM kv").pluck().get();

    for (let i = 1; i <= 25; i++)
      assert.deepEqual(codes(writeAll(writer, [batch(`k${i}`, "x".repeat(3_000_000))])), [undefined]);
    const grown = statSync(`${path}-wal`).size;
    const seenAfter = reader.prepare("SELECT COUNT(*) FROM kv").pluck().get();
    reader.close();
    // The first commit copies the log into the file, the next one restarts it, and one more copy truncates it.
    for (let i = 0; i < 20; i++) writeAll(writer, [batch("again", "x".repeat(3_000_000))]);

    assert.ok(grown > kept, `${grown}`);
    assert.deepEqual([seenBefore, seenAfter], [1, 1]);
    assert.ok(statSync(`${path}-wal`).size <= kept);
  });

  test("a batch of the wrong kind is a defect and keeps its neighbours intact", async (t) => {
    const atEnd = cleanup(t);
    const writer = openSqliteWriter({ path: await migratedPath(atEnd) });
    atEnd.after(() => writer.close());
    const [set] = batch("k", "v");
    const tooFew = [{ ...set, params: ["acme"] }];
    const notBindable = [{ ...set, params: ["acme", "k", {}, 1, null] as unknown as readonly Param[] }];

    const outcomes = writeAll(writer, [batch("a", "1"), tooFew, notBindable, batch("b", "1")]);

    assert.deepEqual(codes(outcomes), [undefined, "internal_error", "internal_error", undefined]);
    assert.equal(writer.failure(), null);
    assert.deepEqual(
      (await writer.read(statementNamed("kv_get"), ["acme", "b", 0])).map((row) => row.value),
      ["1"],
    );
  });

  test("waiting rows of logs are inserted together, in order, with their dependent rows", async (t) => {
    const { writer, other } = await opened(cleanup(t));
    const turns = Array.from({ length: 39 }, (_, n) => n);

    const outcomes = writeAll(
      writer,
      turns.map((n) => [auditRow(n), ...batch(`k${n}`, "v"), event(n), usageRow(n)]),
    );

    assert.deepEqual(codes(outcomes), Array(39).fill(undefined));
    // Rows come from the single statement that returns rows.
    assert.ok(outcomes.every(({ rows }) => rows?.length === 1));
    assert.deepEqual(
      other
        .prepare(
          "SELECT seq, content, run FROM (SELECT event_key - 16777216 AS seq, content, run FROM events) ORDER BY seq",
        )
        .raw()
        .all(),
      turns.map((n) => [n, `event ${n}`, n % 2 === 0 ? null : n]),
    );
    assert.deepEqual(
      other.prepare("SELECT id, payload FROM audit ORDER BY ts").raw().all(),
      turns.map((n) => [`audit${n}`, `{"n":${n}}`]),
    );
    assert.deepEqual(other.prepare("SELECT calls, tokens_input FROM usage_days").raw().all(), [[39, (38 * 39) / 2]]);
  });

  test("one batch with a taken key is refused, and batches inserted with it are kept", async (t) => {
    const { writer, other } = await opened(cleanup(t));
    const turns = Array.from({ length: 20 }, (_, n) => n);
    writeAll(writer, [[event(7)]]);

    const outcomes = writeAll(
      writer,
      turns.map((n) => [auditRow(n), event(n), ...batch(`k${n}`, "v")]),
    );
    const again = writeAll(writer, [[event(20)], [event(21)]]);

    const isTaken = (n: number): boolean => n === 7;
    assert.deepEqual(
      codes(outcomes),
      turns.map((n) => (isTaken(n) ? "conflict" : undefined)),
    );
    assert.deepEqual(outcomes[7]?.error?.details, { subject: "events_insert" });
    assert.deepEqual(
      other.prepare("SELECT id FROM audit ORDER BY ts").pluck().all(),
      turns.filter((n) => !isTaken(n)).map((n) => `audit${n}`),
    );
    assert.equal(other.prepare("SELECT COUNT(*) FROM kv").pluck().get(), 19);
    assert.deepEqual(codes(again), [undefined, undefined]);
    assert.equal(other.prepare("SELECT COUNT(*) FROM events").pluck().get(), 22);
  });

  test("a statement that names a log sees rows of earlier batches and not of later ones", async (t) => {
    const { writer, other } = await opened(cleanup(t));
    const erase = deleteEventsOp(tenant, 1);

    const outcomes = writeAll(writer, [
      [event(0), auditRow(0)],
      [event(1), erase, event(2)],
      [event(3), { ...usageRow(3), expect: 1 }],
    ]);

    assert.deepEqual(codes(outcomes), [undefined, undefined, undefined]);
    assert.deepEqual(other.prepare("SELECT content FROM events ORDER BY event_key").pluck().all(), [
      "event 2",
      "event 3",
    ]);
    assert.equal(other.prepare("SELECT COUNT(*) FROM usage").pluck().get(), 1);
  });

  test("rows that follow from a log's row are in tables that contain the log's name", async (t) => {
    const atEnd = cleanup(t);
    const other = new Database(await migratedPath(atEnd), { readonly: true });
    atEnd.after(() => void other.close());
    const logs = allStatements().flatMap(({ addsTo }) => addsTo ?? []);
    const triggers = other
      .prepare<[], { tbl_name: string; sql: string }>("SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'")
      .all();

    assert.deepEqual(logs.toSorted(), ["audit", "budget_spending", "events", "usage"]);
    assert.ok(triggers.length > 0);
    for (const { tbl_name, sql } of triggers)
      for (const [, changed] of sql.matchAll(/\b(?:INTO|UPDATE(?! SET)|FROM)\s+(\w+)/g))
        if (logs.includes(tbl_name)) assert.ok(changed?.includes(tbl_name), `${tbl_name}: ${changed}`);
  });

  test("an error that breaks the store refuses the whole group, also during retries", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    damage(path, "audit");
    const writer = openSqliteWriter({ path });
    atEnd.after(() => writer.close());
    const other = new Database(path, { readonly: true });
    atEnd.after(() => void other.close());
    const missed = [{ ...batch("a", "1")[0], expect: 2 }];

    const outcomes = writeAll(writer, [missed, batch("b", "2"), [auditRow(1)], batch("c", "3")]);

    assert.deepEqual(codes(outcomes), Array(4).fill("storage_unavailable"));
    assert.match(String(writer.failure()), /malformed/);
    assert.equal(other.prepare("SELECT COUNT(*) FROM kv").pluck().get(), 0);
  });

  test("a missing table fails only the batches that need it, and is a store failure", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const other = new Database(path);
    atEnd.after(() => void other.close());
    other.exec("DROP TABLE audit");
    const writer = openSqliteWriter({ path });
    atEnd.after(() => writer.close());

    const outcomes = writeAll(writer, [batch("b", "2"), [auditRow(1)], batch("c", "3")]);
    const failure = writer.failure();
    const alone = writeAll(writer, [[auditRow(1)]]);
    const after = writeAll(writer, [batch("d", "4")]);
    const cleared = writer.failure();
    other.exec("ALTER TABLE usage RENAME COLUMN meta_json TO meta");
    const columns = writeAll(writer, [[usageRow(1)], batch("e", "5")]);

    assert.deepEqual(codes(columns), ["storage_unavailable", undefined]);
    assert.deepEqual(codes([...outcomes, ...alone, ...after]), [
      undefined,
      "storage_unavailable",
      undefined,
      "storage_unavailable",
      undefined,
    ]);
    assert.match(String(failure), /no such table/);
    assert.equal(cleared, null);
    assert.equal(other.prepare("SELECT COUNT(*) FROM kv").pluck().get(), 4);
  });

  test("a damaged file is storage_unavailable for writers and readers, and not a crash", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    damage(path, "events");
    const writer = openSqliteWriter({ path });
    atEnd.after(() => writer.close());
    const reader = new SqliteReader(path);
    atEnd.after(() => reader.close());

    const params = ["acme", 5, -1, 1, "message", "user", "x", null, null];
    const insert = [{ statement: statementNamed("events_insert"), params, expect: undefined }];
    const outcomes = writeAll(writer, [insert, batch("a", "1")]);

    assert.deepEqual(codes(outcomes), ["storage_unavailable", "storage_unavailable"]);
    assert.match(String(writer.failure()), /malformed/);
    assert.throws(
      () => reader.read(statementNamed("events_forward"), ["acme", 0, 10, 10]),
      (error) => (error as SvcError).code === "storage_unavailable",
    );
  });
});
