import assert from "node:assert/strict";
import { closeSync, openSync, renameSync, statSync, writeSync } from "node:fs";
import { describe, test } from "node:test";
import Database from "better-sqlite3";
import type { SvcError } from "../../bus/errors.ts";
import { migrate } from "../../storage/migrate.ts";
import { SqliteReader } from "../../storage/sqlite/reader.ts";
import { openSqliteWriter } from "../../storage/sqlite/writer.ts";
import { kvSetOp } from "../../storage/tables/kv.ts";
import "../support/all-tables.ts";
import { type Param, statementNamed } from "../../storage/store/statements.ts";
import { createStore, type TenantStore, type WriteOp } from "../../storage/store/store.ts";
import type { WriteOutcome, Writer } from "../../storage/store/writer.ts";
import { emptyDatabase } from "../support/stores.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

/** For its `op` only. */
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

function batch(key: string, value: string): readonly [WriteOp] {
  return [kvSetOp(tenant, { key, value, expires_at: null }, 1)];
}

function writeAll(writer: Writer, batches: readonly (readonly WriteOp[])[]): WriteOutcome[] {
  const outcomes: WriteOutcome[] = [];
  writer.write(batches, (index, outcome) => {
    outcomes[index] = outcome;
  });
  return outcomes;
}

function codes(outcomes: readonly WriteOutcome[]): (string | undefined)[] {
  return outcomes.map(({ error }) => error?.code);
}

describe("the SQLite writer", () => {
  for (const suffix of ["", "-wal"]) {
    test(`acknowledges nothing when svc.db${suffix} is removed, not even in the middle of a commit`, async (t) => {
      const atEnd = cleanup(t);
      const path = await migratedPath(atEnd);
      const writer = openSqliteWriter({ path });
      atEnd.after(() => writer.close());
      const meanwhile = batch("b", "2");
      // A parameter that is asked for when the statement is carried out.
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

  test("while another process holds the file, everything is refused; then writes work again and check says so", async (t) => {
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

  test("a reader that stays open lets the log grow; when it ends the log is used from its start and cut", async (t) => {
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
    // The first commit copies the log into the file, the next starts it anew, and one more copy cuts it.
    for (let i = 0; i < 20; i++) writeAll(writer, [batch("again", "x".repeat(3_000_000))]);

    assert.ok(grown > kept, `${grown}`);
    assert.deepEqual([seenBefore, seenAfter], [1, 1]);
    assert.ok(statSync(`${path}-wal`).size <= kept);
  });

  test("a batch of the wrong kind is a defect and leaves its neighbours alone", async (t) => {
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

  test("a damaged file is storage_unavailable for writers and readers, and not a crash", async (t) => {
    const atEnd = cleanup(t);
    const path = await migratedPath(atEnd);
    const db = new Database(path);
    const root = db
      .prepare<[], number>("SELECT rootpage FROM sqlite_schema WHERE name = 'events'")
      .pluck()
      .get() as number;
    db.close();
    const file = openSync(path, "r+");
    writeSync(file, Buffer.alloc(4096, 0xff), 0, 4096, (root - 1) * 4096);
    closeSync(file);
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
