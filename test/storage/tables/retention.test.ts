// Retention of tenants' rows.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { sealNext } from "../../../governance/audit-chain.ts";
import { AuditKeys } from "../../../governance/audit-keys.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { approvalById, decideOps } from "../../../storage/tables/approvals.ts";
import { auditPage, insertAuditOp } from "../../../storage/tables/audit.ts";
import { draftFileOp, keepFileOp, keptFile } from "../../../storage/tables/files.ts";
import {
  deleteOldApprovals,
  deleteOldAudit,
  deleteOldUsage,
  dropOldUploads,
  eraseIdleThreads,
} from "../../../storage/tables/retention.ts";
import { insertRunOp } from "../../../storage/tables/runs.ts";
import {
  deleteOldRuntimeKeys,
  insertRuntimeKeyOps,
  type RuntimeKeyRow,
  revokeRuntimeKeyOp,
  runtimeKeyById,
  runtimeKeysMax,
  runtimeKeysOf,
} from "../../../storage/tables/runtime-keys.ts";
import { insertThreadOp } from "../../../storage/tables/threads.ts";
import { insertUsageOp, usagePage, usageSummary } from "../../../storage/tables/usage.ts";
import { openApproval } from "../../support/open-approval.ts";
import { newRun, threadRow } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const dayMs = 86_400_000;
const keys = new AuditKeys(["k".repeat(32)]);
const unchained = { before: async () => {}, after: async () => {} };
const until = 100 * dayMs;

const ageApproval = tenantSql(
  "test_age_approval",
  `UPDATE approvals SET ts = ts - CAST(? AS BIGINT), deadline = deadline - CAST(? AS BIGINT), decided_at = decided_at - CAST(? AS BIGINT)
   WHERE tenant_id = :tenant AND id = ?`,
);

for (const dialect of dialects)
  describe(`aged rows on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const tenants = () =>
      ["acme", "globex", "initech"].map((id) => store.tenant(id)) as [TenantStore, TenantStore, TenantStore];

    test("a tenant has a bounded number of keys, and old expired and revoked ones make room", async () => {
      const [acme, globex] = tenants();
      const later = Date.now() + 100 * dayMs;
      const insert = (tenant: TenantStore, n: number, expires_at = later) => {
        const id = String(n);
        const row: RuntimeKeyRow = {
          ...{ id, sha256: `${tenant.tenantId} ${n}`, prefix: "", name: "", sub: "s", scopes: [], ancestors: [] },
          ...{ owner: { sub: "ann", scheme: "api_key", issuer: "" }, budget: null, created_at: n, changed_at: 0 },
          ...{ expires_at, revoked_at: null },
        };
        return insertRuntimeKeyOps(tenant, row);
      };
      const numbers = Array.from({ length: runtimeKeysMax }, (_, n) => n);
      await acme.write(numbers.flatMap((n) => insert(acme, n, n < 2 ? 1 : later)));
      await acme.write([revokeRuntimeKeyOp(acme, "2")]);

      await assert.rejects(acme.write(insert(acme, 1_000)), { code: "conflict" });
      await globex.write(insert(globex, 1_000));
      const early = await deleteOldRuntimeKeys(store.system, 1, 500);
      const late = await deleteOldRuntimeKeys(store.system, Date.now() + dayMs, 500);
      await acme.write([1_000, 1_001, 1_002].flatMap((n) => insert(acme, n)));

      assert.deepEqual([early, late], [2, 1]);
      await assert.rejects(acme.write(insert(acme, 1_003)), { code: "conflict" });
      assert.equal((await runtimeKeysOf(acme))[0]?.id, "3");
      assert.equal((await runtimeKeyById(acme, "1002"))?.id, "1002");
      assert.equal(await runtimeKeyById(globex, "3"), undefined);
    });

    test("TASK-012 old audit rows are deleted, of every tenant and in batches, and no others", async () => {
      const [acme, globex, initech] = tenants();
      const row = (id: number, ts: number) => ({
        ...{ id: String(id).padStart(6, "0"), ts, event_type: "x", manifest_id: "m", principal_subj: "p" },
        ...{ status: "ok", payload: "{}" },
      });
      const write = (tenant: TenantStore, times: readonly number[]) =>
        tenant.write(times.map((ts, id) => insertAuditOp(tenant, row(id, ts))));
      await write(acme, [...Array.from({ length: 1_203 }, (_, at) => until - 1 - at), until]);
      await write(globex, [until - 1, until + 1]);
      await write(initech, [until]);

      for (const tenant of [acme, globex, initech]) while ((await sealNext(tenant, keys, 1)) > 0);

      const deleted = await deleteOldAudit(store, until, unchained);

      assert.equal(deleted, 1_204);
      for (const [tenant, left] of [
        [acme, [until]],
        [globex, [until + 1]],
        [initech, [until]],
      ] as const)
        assert.deepEqual(
          (await auditPage(tenant, {}, null, 10)).rows.map(({ ts }) => ts),
          left,
        );
      assert.equal(await deleteOldAudit(store, until, unchained), 0);
    });

    test("TASK-012 usage is deleted with its daily sums, and the rest adds up", async () => {
      const [acme, globex] = tenants();
      const row = (id: number, ts: number) => ({
        ...{
          id: String(id).padStart(6, "0"),
          ts,
          manifest_id: "m",
          model_id: "r",
          wire_model_id: "w",
          kind: "tokens" as const,
        },
        ...{
          tokens_input: 3,
          tokens_output: 1,
          cache_creation: 0,
          cache_read: 0,
          cost_usd: 0.5,
          thread_id: "",
          meta_json: "{}",
        },
      });
      for (const tenant of [acme, globex])
        await tenant.write(
          [until - 3 * dayMs, until - 1, until, until + 5].map((ts, id) => insertUsageOp(tenant, row(id, ts))),
        );

      const deleted = await deleteOldUsage(store, until / dayMs);

      assert.equal(deleted, 4);
      for (const tenant of [acme, globex]) {
        const { totals, items } = await usageSummary(tenant, { since: 0, until: until + 10 * dayMs }, null);
        assert.deepEqual([totals.calls, totals.tokens_input, items.length], [2, 6, 1]);
        assert.deepEqual(
          (await usagePage(tenant, {}, null, 10)).rows.map(({ ts }) => ts),
          [until + 5, until],
        );
      }
    });

    test("TASK-012 settled requests are deleted, except those with waits or valid grants", async () => {
      const [acme, globex] = tenants();
      const old = Date.now() - 5 * dayMs;
      const ask = async (
        tenant: TenantStore,
        id: string,
        decision: "approved" | "denied" | null,
        lastsDays: number,
        agedDays: number,
      ) => {
        await openApproval(tenant, {
          ...{ id, manifest_id: "m", tool_name: id, call_signature: "0".repeat(64), args: "{}", parameters: "{}" },
          evidence: { effect: "once", risk: "speaks", cost_usd: 0, tool_calls: 0 },
          ...{
            rule_id: "r",
            reason: "",
            thread_id: "",
            tool_call_id: "",
            principal_subj: "p",
            bound_to: "",
            not_by: "",
          },
          ...{ one_shot: 0, ttl_seconds: null, lastsMs: lastsDays * dayMs },
        });
        if (decision !== null)
          await tenant.write(decideOps(tenant, id, { decision, note: "", edited_args: null }, "d"));
        const ms = agedDays * dayMs;
        await tenant.write([tenant.op(ageApproval, [ms, ms, ms, id])]);
      };
      await ask(acme, "denied", "denied", 1, 10);
      await ask(acme, "granted", "approved", 1, 10);
      await ask(acme, "lasting", "approved", 30, 10);
      await ask(acme, "open", null, 30, 10);
      await ask(acme, "lapsed", null, 1, 10);
      await ask(acme, "young", "denied", 1, 1);
      await ask(globex, "denied", "denied", 1, 1);

      const deleted = await deleteOldApprovals(store, old);
      const again = await deleteOldApprovals(store, old);

      const left = async (tenant: TenantStore, ...ids: string[]) => {
        const rows = await Promise.all(ids.map((id) => approvalById(tenant, id)));
        return rows.flatMap((row) => row?.id ?? []);
      };
      // The expired request was settled just now, so it is young.
      assert.deepEqual([deleted, again], [2, 0]);
      assert.deepEqual(await left(acme, "denied", "granted", "lasting", "open", "lapsed", "young"), [
        "lasting",
        "open",
        "lapsed",
        "young",
      ]);
      assert.deepEqual(await left(globex, "denied"), ["denied"]);
    });

    test("TASK-012 old uploads are deleted, and files of tools stay with their conversation", async () => {
      const [acme, globex] = tenants();
      const keep = (tenant: TenantStore, file_id: string, created_at: number, thread_key: number | null) =>
        tenant.write([
          draftFileOp(tenant, {
            file_id,
            media_type: "image/png",
            size_bytes: 1,
            filename: "",
            created_at,
            created_by: "p",
            thread_key,
          }),
          keepFileOp(tenant, file_id),
        ]);
      await keep(acme, "old", until - 1, null);
      await keep(acme, "young", until, null);
      await keep(acme, "made", until - 1, 7);
      await keep(globex, "other", until, null);

      const dropped = await dropOldUploads(store, until);

      assert.equal(dropped, 1);
      const there = [
        await keptFile(acme, "old"),
        await keptFile(acme, "young"),
        await keptFile(acme, "made"),
        await keptFile(globex, "other"),
      ];
      assert.deepEqual(
        there.map((row) => row?.file_id),
        [undefined, "young", "made", "other"],
      );
    });

    test("TASK-012 idle conversations are listed for deletion in pages, except with an open run", async () => {
      const [acme, globex, initech] = tenants();
      let key = 10;
      const talk = (tenant: TenantStore, suffix: string, updated_at: number) =>
        insertThreadOp(tenant, threadRow(key++, suffix, { updated_at }));
      const unsaid = (suffix: string, created_at: number, parent_session_id: string | null = null) =>
        insertThreadOp(acme, threadRow(key++, suffix, { updated_at: 0, created_at, parent_session_id }));
      await acme.write([
        ...["a", "b", "c", "d", "e"].map((suffix) => talk(acme, suffix, until - 1)),
        talk(acme, "young", until),
        ...["s1", "s2", "s3"].map((suffix) => unsaid(suffix, until - 1)),
        unsaid("s-young", until),
        unsaid("task-0123456789abcdef", 1, "acme:a"),
        unsaid("fiber:r", 1),
        talk(acme, "busy", until - 1),
      ]);
      await acme.write([insertRunOp(acme, newRun("r1"), { thread_key: key - 1, epoch: 0, first_seq: 0 })]);
      await globex.write([talk(globex, "a", until - 2)]);
      await initech.write([insertThreadOp(initech, threadRow(key++, "s", { updated_at: 0 }))]);

      const given: string[] = [];
      const erased = await eraseIdleThreads(store, until, 2, async ({ tenantId }, suffix) => {
        given.push(`${tenantId}:${suffix}`);
        return suffix !== "b";
      });

      const said = ["acme:a", "acme:b", "acme:c", "acme:d", "acme:e", "globex:a"];
      assert.deepEqual(given, [...said, "acme:s1", "acme:s2", "acme:s3", "initech:s"]);
      assert.equal(erased, 9);
    });
  });
