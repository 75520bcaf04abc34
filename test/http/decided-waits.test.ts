// A decision wakes the runs that wait for it, on any node; each run then reads the decision from its row. Its news follow.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { nodeAddress, runAddress } from "../../bus/address.ts";
import { systemEnv } from "../../bus/env.ts";
import { SecretMask } from "../../governance/secret-mask.ts";
import type { HttpContext } from "../../http/context.ts";
import type { RouteRequest } from "../../http/route.ts";
import { approvalRoutes } from "../../http/routes/approvals.ts";
import type { Store } from "../../storage/store/store.ts";
import { joinOps } from "../../storage/tables/approvals.ts";
import { openWaitOp } from "../../storage/tables/waits.ts";
import { openApproval } from "../support/open-approval.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const atEnd = cleanup();
let store: Store;
before(async () => {
  ({ store } = await testStore("sqlite", atEnd));
});

test("APPR-020 a decision wakes every run that waits for it, with a thread and without", async () => {
  const tenant = store.tenant("acme");
  const principal = { tenant_id: "acme", sub: "bob", scopes: ["*"], scheme: "api_key", issuer: "" };
  await openApproval(tenant, {
    ...{ id: "request", manifest_id: "m", tool_name: "t", call_signature: "s", args: "{}", parameters: "{}" },
    ...{ rule_id: "r", reason: "", thread_id: "", tool_call_id: "", principal_subj: "alice", bound_to: "", not_by: "" },
    evidence: { effect: "read", risk: "reads", cost_usd: 0, tool_calls: 1 },
    ...{ one_shot: 0, ttl_seconds: 600, lastsMs: 600_000 },
  });
  for (const [run_id, suffix] of [
    ["threaded", "desk"],
    ["stateless", ""],
  ] as const) {
    const wait = {
      ...{
        wait_id: run_id,
        thread_key: suffix === "" ? -1 : 1,
        asked_on: 1,
        opened_at: 1,
        deadline: null,
        suffix,
        run_id,
      },
      ...{ beside: 0, kind: "approval", subject: "s", approval_id: "request", frame: null, asked_as: null },
      may_answer: { scopes: [], principal: null, not_principal: null },
      call: { tool_call_id: "c", tool: "t", args: {}, control: "approvals" },
    };
    await tenant.write(joinOps(tenant, "request", run_id, openWaitOp(tenant, wait)));
  }
  const told: unknown[] = [];
  const bus = { actorNodes: ["node/1"], tell: (...message: unknown[]) => void told.push(message) };
  const context = { store, bus, env: systemEnv(), mask: new SecretMask([]) } as unknown as HttpContext;
  const params = { approval_id: "request" };
  const request = { params, body: { decision: "approved", note: "" }, principal };
  const decide = approvalRoutes.find(({ path }) => path.endsWith("/decide"));

  await decide?.handle(request as unknown as RouteRequest<never, never, never>, context);

  const news = { kind: "approval", approval_id: "request", thread_id: "", status: "approved" };
  assert.deepEqual(told, [
    [runAddress("acme", null, "stateless"), "resume", { due: false }],
    [runAddress("acme", "desk", "threaded"), "resume", { due: false }],
    [nodeAddress("node/1"), "news", { tenant_id: "acme", news }],
  ]);
});
