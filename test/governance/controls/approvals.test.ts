import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { SvcError } from "../../../bus/errors.ts";
import { approvals } from "../../../governance/controls/approvals.ts";
import type { GovernedCall, GovernedRun } from "../../../governance/controls/control.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { approvalById, approvalPage, decideOps } from "../../../storage/tables/approvals.ts";
import { compileSpec } from "../../manifests/support.ts";
import { openApproval } from "../../support/open-approval.ts";
import { refusingStore } from "../../support/refusing-store.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";
import { call } from "./support.ts";

const known = new Map(builtInTools.map((tool) => [tool.name, tool]));
const agent = compileSpec(
  { tools: ["calculator"], approvals: [{ id: "gate", tools: ["calculator"] }] },
  { tools: known },
);
const alice = { tenant_id: "acme", sub: "alice", scopes: ["chat:write"], scheme: "api_key", issuer: "" };
const governed = { ...call, args: { expression: "1" }, preview: async () => null, principal: alice } as GovernedCall;

describe("approvals", () => {
  const atEnd = cleanup();
  let store: Store;
  before(async () => {
    ({ store } = await testStore("sqlite", atEnd));
  });

  function gateOf(tenant: TenantStore, runId = "run", of = agent, failed?: unknown[]) {
    const control = approvals({
      agent: of,
      env: systemEnv(),
      store: tenant,
      mode: "default",
      attended: true,
      threadId: "acme:t",
      budget: { spent: { cost_usd: 0, tool_calls: 0 } },
      metrics: { count: () => {} },
      callKey: (id: string) => `${runId}.${id}`,
      failed: (error: unknown) => (failed ? failed.push(error) : assert.fail(String(error))),
    } as unknown as GovernedRun);
    assert.ok(control?.before);
    return control.before;
  }

  test("LIM-003 a call that asks leaves its request to the wait, and joins an open one", async () => {
    const tenant = store.tenant("asks");
    const ask = async (tool_call_id: string) => {
      const verdict = await gateOf(tenant)({ ...governed, tool_call_id });
      assert.ok(verdict.verdict === "wait");
      return verdict.wait;
    };
    const { request } = await ask("call_1");
    assert.ok(request);
    const { rows } = await approvalPage(tenant, { status: "pending" }, null, 10);
    await openApproval(tenant, request);

    const joined = await ask("call_2");

    assert.deepEqual(rows, []);
    assert.deepEqual([joined.approval_id, joined.request], [request.id, undefined]);
    const row = await approvalById(tenant, request.id);
    assert.deepEqual([joined.deadline, row?.tool_call_id], [row?.deadline, "call_1"]);
  });

  test("a grant that cannot be claimed during an outage admits no call", async () => {
    const refusing = refusingStore(store);
    const tenant = refusing.tenant("away");
    const failed: unknown[] = [];
    const single = compileSpec(
      { tools: ["calculator"], approvals: [{ id: "gate", tools: ["calculator"], one_shot: true }] },
      { tools: known },
    );
    const before = gateOf(tenant, "run", single, failed);
    const asked = await before(governed);
    assert.ok(asked.verdict === "wait" && asked.wait.request);
    await openApproval(tenant, asked.wait.request);
    const yes = { decision: "approved", note: "", edited_args: null } as const;
    await tenant.write(decideOps(tenant, asked.wait.approval_id ?? "", yes, "bob"));
    refusing.refused = "approval_claim";

    const away = await before({ ...governed, tool_call_id: "call_2" });
    refusing.refused = null;
    const back = await before({ ...governed, tool_call_id: "call_2" });

    assert.deepEqual(away, { verdict: "deny", rule: "gate", detail: "unavailable" });
    assert.deepEqual(
      failed.map((error) => (error as SvcError).code),
      ["storage_unavailable"],
    );
    assert.equal(back.verdict, "pass");
  });
});
