// What tasks borrow of one run, whose own lender may fail.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TaskLoans } from "../../../../actors/run/calls/task-loans.ts";
import type { RunScope } from "../../../../actors/run/scope/scope.ts";
import { Cancellation } from "../../../../actors/runtime/cancellation.ts";
import { systemEnv } from "../../../../bus/env.ts";
import { SvcError } from "../../../../bus/errors.ts";
import { type Lender, RunBudget } from "../../../../governance/budget.ts";
import type { RunLimits } from "../../../../manifests/sections/limits.ts";

const limits: RunLimits = {
  max_tool_calls: 10,
  max_wall_clock_seconds: 60,
  max_peer_hops: 5,
  max_input_tokens: 1_000,
  max_output_tokens: 300,
  max_cost_usd: 1,
};
const asked = { task_id: "t", input_tokens: 700, output_tokens: 300, rates: { input: 1, output: 1 } };

test("a loan that the store does not take leaves nothing set aside, and the next one is lent in full", async () => {
  const env = systemEnv();
  let isAway = true;
  const lender: Lender = {
    binds: true,
    async lend(wanted) {
      if (isAway) throw new SvcError("storage_unavailable");
      return { loan_id: "above", ...wanted, cost_usd: 1 };
    },
    repay() {},
    count: async () => null,
  };
  const budget = new RunBudget(limits, env.monotonic(), null, lender);
  const plan = { agent: { manifest: { spec: { limits } } } };
  const scope = { budget, deps: { env }, plan, cancellation: new Cancellation(), tree: null } as unknown as RunScope;
  const loans = new TaskLoans(scope);

  await assert.rejects(
    loans.lend(asked, () => true),
    { code: "storage_unavailable" },
  );
  isAway = false;
  const lent = await loans.lend(asked, () => true);

  assert.ok("loan" in lent);
  assert.equal(lent.loan.output_tokens, 300);
  assert.equal(budget.spent.input_tokens, 700);
});
