import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import SqliteDatabase from "better-sqlite3";
import { type Env, systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { AuditLog } from "../../governance/audit.ts";
import type { AuditType } from "../../governance/audit-types.ts";
import { SecretMask } from "../../governance/secret-mask.ts";
import type { Store } from "../../storage/store/store.ts";
import { auditPage } from "../../storage/tables/audit.ts";
import { eventually } from "../support/eventually.ts";
import { type TestStore, testStore } from "../support/stores.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";

const event = (name: string) => ({
  event_type: { name, help: "An event of a test." },
  status: "ok",
  manifest_id: "agent",
  principal_subj: "alice",
  payload: {},
});

test("events of one millisecond are in order, and their ids reveal no other tenant", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  let now = 1_700_000_000_000;
  const env = { ...systemEnv(), now: () => now };
  const log = new AuditLog(store, env, new SecretMask([]), 0, () => assert.fail("dropped"));
  const types = Array.from({ length: 40 }, (_, i) => `type-${i}`);

  for (const type of types) log.record("acme", event(type));
  for (let i = 0; i < 1000; i++) log.record("globex", event("noise"));
  now += 1;
  log.record("acme", event("later"));
  await log.flush();

  const { rows } = await auditPage(store.tenant("acme"), {}, null, 100);
  assert.deepEqual(
    rows.map(({ event_type }) => event_type),
    ["later", ...types.toReversed()],
  );
  assert.equal(rows[0]?.id.slice(0, 4), "0000");
});

test("up to 200,000 rows are buffered; later ones are dropped and counted singly", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  let dropped = 0;
  const log = new AuditLog(store, systemEnv(), new SecretMask([]), 0, () => dropped++);

  for (let i = 0; i < 200_000; i++) log.record("acme", event("kept"));
  assert.equal(dropped, 0);
  for (let i = 0; i < 3; i++) log.record("acme", event("dropped"));

  assert.equal(dropped, 3);
});

test("a hundred rows are written at once, and the rest waits for the timer", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  let planned = 0;
  const env: Env = {
    ...systemEnv(),
    timer() {
      planned++;
      return { cancel() {} };
    },
  };
  const log = new AuditLog(store, env, new SecretMask([]), 5, () => assert.fail("dropped"));

  for (let i = 0; i < 250; i++) log.record("acme", event(`type-${i}`));
  const rows = await eventually("two hundred rows", async () => {
    const page = await auditPage(store.tenant("acme"), {}, null, 500);
    return page.rows.length < 200 ? undefined : page.rows;
  });

  assert.deepEqual(
    rows.map(({ event_type }) => event_type),
    Array.from({ length: 200 }, (_, i) => `type-${199 - i}`),
  );
  assert.equal(planned, 1);
  for (let i = 0; i < 20; i++) await nextTurn();
  assert.equal((await auditPage(store.tenant("acme"), {}, null, 500)).rows.length, 200);
  // A writer of full batches flushes everything on demand, wherever it is.
  for (let i = 0; i < 100; i++) log.record("acme", event("more"));
  assert.equal(await log.flush(), true);
  assert.equal((await auditPage(store.tenant("acme"), {}, null, 500)).rows.length, 350);
});

describe("a flush that fails", () => {
  /** The real environment, except for timers: the test runs them. */
  function timersOf() {
    const waiting: { delayMs: number; work: () => void }[] = [];
    const env: Env = {
      ...systemEnv(),
      timer(delayMs, work) {
        const timer = { delayMs, work };
        waiting.push(timer);
        return { cancel: () => void waiting.splice(waiting.indexOf(timer), 1) };
      },
    };
    return { env, waiting, fire: () => waiting.shift()?.work() };
  }

  /** Makes every write of an event of this type fail until the result is called. */
  function refuse({ config }: TestStore, event_type: string, atEnd: Cleanup): () => void {
    assert.equal(config.engine, "sqlite");
    const db = new SqliteDatabase(config.engine === "sqlite" ? config.path : "", { timeout: 10_000 });
    atEnd.after(() => void db.close());
    db.exec(`CREATE TRIGGER refuse BEFORE INSERT ON audit WHEN new.event_type = '${event_type}'
             BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    return () => void db.exec("DROP TRIGGER refuse");
  }

  const typesOf = async ({ store }: TestStore) =>
    (await auditPage(store.tenant("acme"), {}, null, 500)).rows.map(({ event_type }) => event_type);

  test("is retried by the timer alone", async (t) => {
    const atEnd = cleanup(t);
    const opened = await testStore("sqlite", atEnd);
    const { env, waiting, fire } = timersOf();
    const log = new AuditLog(opened.store, env, new SecretMask([]), 5, () => assert.fail("dropped"));
    const allow = refuse(opened, "early", atEnd);

    log.record("acme", event("early"));
    fire();
    await log.flush();

    assert.deepEqual(await typesOf(opened), []);
    assert.deepEqual(
      waiting.map(({ delayMs }) => delayMs),
      [5000],
    );
    allow();
    fire();
    const types = await eventually("the event", async () => {
      await nextTurn();
      const seen = await typesOf(opened);
      return seen.length > 0 ? seen : undefined;
    });
    assert.deepEqual(types, ["early"]);
    assert.deepEqual(waiting, []);
  });

  test("though it was written, as when the answer is lost, is resent and blocks nothing", async (t) => {
    const { store } = await testStore("sqlite", cleanup(t));
    let lost = 1;
    const system: Store["system"] = {
      inOrder: store.system.inOrder,
      op: (...given) => store.system.op(...given),
      read: (...given) => store.system.read(...given),
      readLong: (...given) => store.system.readLong(...given),
      async write(...given) {
        const rows = await store.system.write(...given);
        if (lost-- > 0) throw new SvcError("storage_unavailable");
        return rows;
      },
    };
    const lossy: Store = { ...store, system };
    const log = new AuditLog(lossy, systemEnv(), new SecretMask([]), 0, () => assert.fail("dropped"));

    log.record("acme", event("first"));
    const isFirstWritten = await log.flush();
    log.record("acme", event("second"));
    const areAllWritten = await log.flush();

    assert.deepEqual([isFirstWritten, areAllWritten], [false, true]);
    const { rows } = await auditPage(store.tenant("acme"), {}, null, 10);
    assert.deepEqual(
      rows.map(({ event_type }) => event_type),
      ["second", "first"],
    );
  });

  test("keeps its unwritten rows, and writes nothing twice", async (t) => {
    const atEnd = cleanup(t);
    const opened = await testStore("sqlite", atEnd);
    const { env, waiting } = timersOf();
    const log = new AuditLog(opened.store, env, new SecretMask([]), 5, () => assert.fail("dropped"));
    const types = Array.from({ length: 250 }, (_, i) => `type-${i}`);
    const allow = refuse(opened, "type-120", atEnd);

    for (const type of types) log.record("acme", event(type));
    const isWritten = await log.flush();
    const first = await typesOf(opened);
    allow();
    const isWrittenLater = await log.flush();

    assert.deepEqual([isWritten, isWrittenLater], [false, true]);
    assert.deepEqual(first.toReversed(), types.slice(0, 100));
    assert.deepEqual((await typesOf(opened)).toReversed(), types);
    assert.equal(waiting.length, 1);
  });

  test("sets no timer when none is needed", async (t) => {
    const atEnd = cleanup(t);
    const opened = await testStore("sqlite", atEnd);
    const { env, waiting } = timersOf();
    const log = new AuditLog(opened.store, env, new SecretMask([]), 0, () => assert.fail("dropped"));
    refuse(opened, "early", atEnd);

    log.record("acme", event("early"));
    await log.flush();

    assert.deepEqual(waiting, []);
  });
});

test("an undeclared type is refused, and so are names of object methods", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const log = new AuditLog(store, systemEnv(), new SecretMask([]), 0, () => assert.fail("dropped"));
  const undeclared = (event_type: string) => ({ ...event("x"), event_type: event_type as AuditType });

  for (const type of ["made_up", "toString"])
    assert.throws(() => log.record("acme", undeclared(type)), new RegExp(`${type} is no declared audit type`));
});
