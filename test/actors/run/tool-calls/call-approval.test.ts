// The grant of a call while the store fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import { claimGrant } from "../../../../actors/run/tool-calls/call-approval.ts";
import { decideOps } from "../../../../storage/tables/approvals.ts";
import { openApproval } from "../../../support/open-approval.ts";
import { refusingStore } from "../../../support/refusing-store.ts";
import { gateDialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

for (const dialect of gateDialects)
  test(`a grant of an unconfirmed write belongs to its own call only, on ${dialect}`, async (t) => {
    const store = refusingStore((await testStore(dialect, cleanup(t))).store);
    const tenant = store.tenant("acme");
    for (const one_shot of [0, 1]) {
      const id = `shots-${one_shot}`;
      await openApproval(tenant, {
        ...{ id, manifest_id: "m", tool_name: "t", call_signature: id, args: "{}", parameters: "{}", rule_id: "r" },
        ...{ reason: "", thread_id: "", tool_call_id: "", principal_subj: "", bound_to: "", not_by: "", one_shot },
        ...{ ttl_seconds: null, lastsMs: 600_000 },
        evidence: { effect: "once", risk: "speaks", cost_usd: 0, tool_calls: 0 },
      });
      await tenant.write(decideOps(tenant, id, { decision: "approved", note: "", edited_args: null }, "bob"));
    }
    store.refused = "approval_claim";
    store.once = true;

    await assert.rejects(claimGrant(tenant, "shots-1", "call"), { code: "storage_unavailable" });

    const claims: [string, string][] = [
      ["shots-1", "call"],
      ["shots-1", "call"],
      ["shots-1", "another"],
      ["shots-0", "another"],
      ["gone", "call"],
    ];
    const may: boolean[] = [];
    for (const [id, call] of claims) may.push(await claimGrant(tenant, id, call));
    assert.deepEqual(may, [true, true, false, true, false]);
  });
