import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  type ApprovalKey,
  approvalById,
  decideOps,
  liveGrant,
  type NewApproval,
  openApproval,
} from "../../../storage/tables/approvals.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const key: ApprovalKey = { manifest_id: "m", tool_name: "tool", call_signature: "0".repeat(64) };
const yes = { decision: "approved", note: "", edited_args: null } as const;
const asker = "asker";

/** As if it had been decided so much earlier. */
const decidedBefore = tenantSql(
  "test_decided_before",
  "UPDATE approvals SET decided_at = decided_at - CAST(? AS BIGINT) WHERE tenant_id = :tenant AND id = ?",
);

const request = (id: string, lastsMs: number): NewApproval => ({
  ...key,
  id,
  args: "{}",
  parameters: "{}",
  evidence: { effect: "once", risk: "speaks", cost_usd: 0, tool_calls: 0 },
  rule_id: "rule",
  reason: "",
  thread_id: "",
  tool_call_id: "",
  principal_subj: asker,
  bound_to: "",
  not_by: "",
  one_shot: 0,
  ttl_seconds: lastsMs / 1000,
  lastsMs,
});

for (const dialect of dialects) {
  describe(`approvals on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });
    const freshTenant = (): TenantStore => store.tenant(`approvals-${++count}`);
    const approve = async (tenant: TenantStore, id: string) => tenant.write(decideOps(tenant, id, yes, "decider"));

    test("a request whose time is over is decided by nobody, also before anybody has marked it", async () => {
      const tenant = freshTenant();
      await openApproval(tenant, request("late", 0));

      await assert.rejects(approve(tenant, "late"), { code: "conflict" });

      assert.equal((await approvalById(tenant, "late"))?.status, "pending");
    });

    test("an approval lasts from its decision as long as its request would have, in its tenant alone", async () => {
      const [tenant, other] = [freshTenant(), freshTenant()];
      await openApproval(tenant, request("grant", 600_000));
      await approve(tenant, "grant");
      const after = (ms: number) => tenant.write([tenant.op(decidedBefore, [ms, "grant"], 1)]);

      assert.equal((await liveGrant(tenant, key, asker))?.id, "grant");
      assert.equal(await liveGrant(other, key, asker), undefined);
      await after(300_000);
      assert.equal((await liveGrant(tenant, key, asker))?.id, "grant");
      await after(300_000);
      assert.equal(await liveGrant(tenant, key, asker), undefined);
      assert.equal((await approvalById(tenant, "grant"))?.status, "approved");
    });
  });
}
