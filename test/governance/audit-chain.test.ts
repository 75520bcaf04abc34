// The chain of hashes over audit rows: what changes it finds, and what it allows.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { AuditPage } from "../../bus/protocol/audit.ts";
import { allowPruning, erasedPayload, pruneSeals, sealNext } from "../../governance/audit-chain.ts";
import { AuditKeys } from "../../governance/audit-keys.ts";
import { chainHead, readPosition, verifyPage } from "../../governance/audit-verification.ts";
import { tenantSql } from "../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { insertAuditOp } from "../../storage/tables/audit.ts";
import { deleteOldAudit } from "../../storage/tables/retention.ts";
import { runs } from "../support/effort.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const keys = new AuditKeys(["a".repeat(32)]);
const env = systemEnv();
const fields = ["event_type", "manifest_id", "principal_subj", "status", "payload", "tool"] as const;

const setField = Object.fromEntries(
  fields.map((name) => [
    name,
    tenantSql(`test_audit_set_${name}`, `UPDATE audit SET ${name} = ? WHERE tenant_id = :tenant AND ts = ? AND id = ?`),
  ]),
);
const setPlace = tenantSql(
  "test_audit_move",
  "UPDATE audit SET ts = ?, id = ? WHERE tenant_id = :tenant AND ts = ? AND id = ?",
);
const removeRow = tenantSql("test_audit_remove", "DELETE FROM audit WHERE tenant_id = :tenant AND ts = ? AND id = ?");
const removeMarks = tenantSql("test_audit_unmark", "DELETE FROM audit_unsealed WHERE tenant_id = :tenant");
const removeSeals = tenantSql(
  "test_audit_unseal",
  "DELETE FROM audit_seals WHERE tenant_id = :tenant AND first_seq = ?",
);
const setBase = tenantSql("test_audit_base", "UPDATE audit_heads SET pruned_before = ? WHERE tenant_id = :tenant");

const row = (at: number, ts = at) => ({
  ...{ id: `id${String(at).padStart(6, "0")}`, ts, event_type: "tool_call", manifest_id: "m", principal_subj: "ann" },
  ...{ status: "ok", payload: JSON.stringify({ tool: "t", latency_ms: at / 3, words: `é${at}` }) },
});

async function sealAll(store: TenantStore, with_ = keys): Promise<void> {
  while ((await sealNext(store, with_, 9)) > 0);
}

/** Returns the joined pages. */
async function verified(store: TenantStore, with_ = keys, expected: { seq: number; hash: string } | null = null) {
  const pages: AuditPage[] = [];
  for (let from: string | null = null; ; ) {
    const page: AuditPage = await verifyPage(store, with_, from === null ? null : readPosition(from), expected, env);
    pages.push(page);
    from = page.next;
    if (from === null) break;
  }
  const last = pages.at(-1) as AuditPage;
  return {
    ok: pages.every(({ ok }) => ok),
    pages: pages.length,
    changed: pages.find(({ first_changed }) => first_changed !== null)?.first_changed?.seq ?? null,
    missing: pages.flatMap(({ missing }) => missing),
    expired: pages.reduce((sum, { expired }) => sum + expired, 0),
    erased: pages.reduce((sum, { erased }) => sum + erased, 0),
    faults: pages.flatMap(({ faults }) => faults),
    unsealed: last.unsealed,
    foreign: last.foreign,
  };
}

for (const dialect of dialects)
  describe(`the audit chain on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    /** A tenant with this many sealed rows. */
    async function chained(rows: number): Promise<TenantStore> {
      const tenant = store.tenant(`t${++count}`);
      await tenant.write(Array.from({ length: rows }, (_, at) => insertAuditOp(tenant, row(at + 1))));
      await sealAll(tenant);
      return tenant;
    }

    test("a chain over several pages verifies, with late rows in later seals", async () => {
      const tenant = await chained(1_150);
      await tenant.write([insertAuditOp(tenant, row(5_000, 3))]);
      await sealAll(tenant);
      await tenant.write([insertAuditOp(tenant, row(5_001, 2))]);

      const found = await verified(tenant);

      assert.deepEqual([found.ok, found.unsealed, found.foreign, found.faults], [true, 1, 0, []]);
      assert.ok(found.pages >= 3);
      assert.equal((await chainHead(tenant)).seq, 1_151);
    });

    test("an empty chain verifies", async () => {
      const found = await verified(store.tenant("nobody"));

      assert.deepEqual([found.ok, found.unsealed, found.foreign], [true, 0, 0]);
    });

    test("any changed, removed or moved row is found", async () => {
      const size = 120;
      const change = fc.oneof(
        fc.record({
          kind: fc.constant("field" as const),
          at: fc.nat(size - 1),
          name: fc.constantFrom(...fields),
          value: fc.string(),
        }),
        fc.record({ kind: fc.constant("remove" as const), at: fc.nat(size - 1) }),
        fc.record({ kind: fc.constant("swap" as const), at: fc.nat(size - 2) }),
        fc.record({ kind: fc.constant("move" as const), at: fc.nat(size - 1), by: fc.integer({ min: 1, max: 300 }) }),
      );
      const tenant = await chained(size);
      await fc.assert(
        fc.asyncProperty(change, async (made) => {
          const old = row(made.at + 1);
          const put = (sql: keyof typeof setField, value: string, of: { ts: number; id: string }) =>
            tenant.op(setField[sql] as NonNullable<(typeof setField)[string]>, [value, of.ts, of.id]);
          const undo = [];
          if (made.kind === "field") {
            const value = `${made.value}!`;
            await tenant.write([put(made.name, value, old)]);
            undo.push(put(made.name, made.name === "tool" ? "t" : old[made.name], old));
          } else if (made.kind === "remove") {
            await tenant.write([tenant.op(removeRow, [old.ts, old.id])]);
            undo.push(insertAuditOp(tenant, old), tenant.op(removeMarks, []));
          } else if (made.kind === "swap") {
            const other = row(made.at + 2);
            await tenant.write([put("payload", other.payload, old), put("payload", old.payload, other)]);
            undo.push(put("payload", old.payload, old), put("payload", other.payload, other));
          } else {
            const ts = old.ts + size + made.by;
            await tenant.write([tenant.op(setPlace, [ts, old.id, old.ts, old.id])]);
            undo.push(tenant.op(setPlace, [old.ts, old.id, ts, old.id]));
          }

          const found = await verified(tenant);

          await tenant.write(undo);
          assert.equal(found.ok, false);
          const seq = made.at + 1;
          if (made.kind === "field" || made.kind === "swap") assert.equal(found.changed, seq);
          else assert.deepEqual(found.missing, [seq]);
          if (made.kind === "move") assert.equal(found.foreign, 1);
        }),
        { numRuns: runs(300), endOnFailure: true },
      );

      assert.equal((await verified(tenant)).ok, true);
    });

    test("a removed seal, a moved base, a foreign row and another head are found", async () => {
      const tenant = await chained(350);
      const head = await chainHead(tenant);
      const noted = await verified(tenant, keys, head);
      const wrong = await verified(tenant, keys, { seq: head.seq, hash: "other" });
      const later = await verified(tenant, keys, { seq: head.seq + 5, hash: "other" });
      await tenant.write([insertAuditOp(tenant, row(9_000))]);
      await tenant.write([tenant.op(removeMarks, [])]);
      const foreign = await verified(tenant);
      await tenant.write([tenant.op(removeSeals, [101])]);
      const gap = await verified(tenant);
      await tenant.write([tenant.op(setBase, [1_000])]);
      const based = await verified(tenant);

      assert.equal(noted.ok, true);
      assert.match(wrong.faults.join(), /does not have the noted hash/);
      assert.match(later.faults.join(), /of the noted head is gone/);
      assert.deepEqual([foreign.ok, foreign.foreign], [false, 1]);
      assert.match(gap.faults.join(), /seals of the rows 101 to 200 are gone/);
      assert.match(based.faults.join(), /base of the chain was changed/);
    });

    test("an erased payload verifies, and its other fields stay protected", async () => {
      const tenant = await chained(10);
      const { ts, id } = row(4);
      const erase = tenant.op(setField.payload as NonNullable<typeof setField.payload>, [erasedPayload, ts, id]);
      await tenant.write([erase]);

      const erased = await verified(tenant);
      await tenant.write([tenant.op(setField.status as NonNullable<typeof setField.status>, ["error", ts, id])]);
      const changed = await verified(tenant);

      assert.deepEqual([erased.ok, erased.erased], [true, 1]);
      assert.deepEqual([changed.ok, changed.changed], [false, 4]);
    });

    test("retention deletes sealed rows and whole seals, and the rest verifies", async () => {
      const tenant = await chained(450);
      await tenant.write([insertAuditOp(tenant, row(6_000, 5))]);
      const until = 260;
      const only = { tenant: (id: string) => store.tenant(id), system: store.system } as Store;

      const deleted = await deleteOldAudit(only, until, {
        before: (one) => allowPruning(one, keys, until),
        after: (one) => pruneSeals(one, keys, until),
      });
      const pruned = await verified(tenant);
      await sealAll(tenant);
      const sealed = await verified(tenant);
      const { ts, id } = row(300);
      await tenant.write([tenant.op(removeRow, [ts, id])]);
      const removed = await verified(tenant);

      assert.ok(deleted >= until - 1);
      assert.deepEqual([pruned.ok, pruned.expired, pruned.unsealed, pruned.faults], [true, 59, 1, []]);
      assert.equal(sealed.ok, true);
      assert.deepEqual([removed.ok, removed.missing], [false, [300]]);
    });

    test("an older key verifies and a new one signs", async () => {
      const tenant = await chained(5);
      const both = new AuditKeys(["b".repeat(32), "a".repeat(32)]);
      await tenant.write([insertAuditOp(tenant, row(100))]);
      await sealAll(tenant, both);

      const known = await verified(tenant, both);
      const unknown = await verified(tenant, new AuditKeys(["b".repeat(32)]));

      assert.equal(known.ok, true);
      assert.match(unknown.faults.join(), /is not in SVC_AUDIT_KEY/);
    });

    test("sealers of two processes seal each row once", async () => {
      const tenant = store.tenant(`t${++count}`);
      await tenant.write(Array.from({ length: 700 }, (_, at) => insertAuditOp(tenant, row(at + 1))));
      const seal = async () => {
        for (let left = 1; left > 0; )
          left = await sealNext(tenant, keys, 9).catch((error) => {
            assert.equal(SvcError.from(error).code, "conflict");
            return 1;
          });
      };

      await Promise.all([seal(), seal(), seal()]);

      const found = await verified(tenant);
      assert.deepEqual([found.ok, found.unsealed, found.foreign], [true, 0, 0]);
      assert.equal((await chainHead(tenant)).seq, 700);
    });
  });
