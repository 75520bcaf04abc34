import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { SvcError } from "../../../bus/errors.ts";
import { approvals } from "../../../governance/controls/approvals.ts";
import type { GovernedCall, GovernedRun } from "../../../governance/controls/control.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { approvalById, approvalPage, type Decision, decideOps } from "../../../storage/tables/approvals.ts";
import { compileSpec } from "../../manifests/support.ts";
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

/** Decides a request in the moment in which it can be seen: its asker hears of the write only after that. */
function quickDecider(store: TenantStore, decision: Decision): TenantStore {
  const write = async (ops: readonly WriteOp[]) => {
    const written = await store.write(ops);
    const { rows } = await approvalPage(store, { status: "pending" }, null, 10);
    for (const { id } of rows) await store.write(decideOps(store, id, decision, "bob"));
    return written;
  };
  const { read, op } = { read: store.read.bind(store), op: store.op.bind(store) };
  return { ...store, read, op, write } as TenantStore;
}

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

  test("LIM-003 a call that asks again, as its process died before it could wait, hears what was said; others ask anew", async () => {
    const tenant = store.tenant("again");
    const asked = async (run: string, tool_call_id: string) => {
      const verdict = await gateOf(tenant, run)({ ...governed, tool_call_id });
      assert.ok(verdict.verdict === "wait");
      return verdict.wait.approval_id ?? "";
    };
    const first = await asked("run", "call_1");
    await tenant.write(decideOps(tenant, first, { decision: "denied", note: "", edited_args: null }, "bob"));

    const again = await asked("run", "call_1");
    const others = [await asked("run", "call_2"), await asked("another", "call_1")];

    assert.equal(again, first);
    assert.equal((await approvalById(tenant, first))?.status, "denied");
    // They are equal calls, and share a request.
    assert.equal(new Set(others).size, 1);
    assert.notEqual(others[0], first);
  });

  for (const decision of ["approved", "denied"] as const)
    test(`LIM-003 a request that is ${decision} before its call waits for it is the one that the call hears of`, async () => {
      const tenant = store.tenant(`quick-${decision}`);
      const before = gateOf(quickDecider(tenant, { decision, note: "at once", edited_args: null }));

      const verdict = await before(governed);

      assert.ok(verdict.verdict === "wait");
      const row = await approvalById(tenant, verdict.wait.approval_id ?? "");
      assert.deepEqual([row?.status, row?.decision?.by], [decision, "bob"]);
      assert.deepEqual((await approvalPage(tenant, { status: "pending" }, null, 10)).rows, []);
    });

  test("a grant that cannot be claimed as the store is away lets no call pass, and is told as what it is", async () => {
    const refusing = refusingStore(store);
    const tenant = refusing.tenant("away");
    const failed: unknown[] = [];
    const single = compileSpec(
      { tools: ["calculator"], approvals: [{ id: "gate", tools: ["calculator"], one_shot: true }] },
      { tools: known },
    );
    const before = gateOf(tenant, "run", single, failed);
    const asked = await before(governed);
    assert.ok(asked.verdict === "wait");
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
