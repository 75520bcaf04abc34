// Loans of tasks from one run, whose own lender may fail, refuse, or be slow.
import assert from "node:assert/strict";
import { test } from "node:test";
import { TaskReservations } from "../../../../actors/run/child-runs/task-reservations.ts";
import type { RunContext } from "../../../../actors/run/context/run-context.ts";
import { Cancellation } from "../../../../actors/runtime/cancellation.ts";
import { SvcError } from "../../../../bus/errors.ts";
import type { BudgetReservation } from "../../../../bus/protocol/task.ts";
import { type Breach, type ParentBudget, RunBudget } from "../../../../governance/budget.ts";
import type { RunLimits } from "../../../../manifests/sections/limits.ts";
import { stillEnv } from "../../models/support.ts";

const limits: RunLimits = {
  max_tool_calls: 10,
  max_wall_clock_seconds: 60,
  max_peer_hops: 5,
  max_input_tokens: 1_000,
  max_output_tokens: 300,
  max_cost_usd: 1,
};
const asked = { task_id: "t", input_tokens: 700, output_tokens: 300, rates: { input: 1, output: 1 } };
const lent: BudgetReservation = { reservation_id: "above", input_tokens: 700, output_tokens: 300, cost_usd: 1 };
const breach: Breach = { limit: "max_cost_usd", detail: "all is spent" };

/** The reservations of a run that spends with another, which lends the result of `lend`. */
function loansOf(reserve: () => Promise<BudgetReservation | Breach>) {
  const world = stillEnv({ holdTimers: true });
  const { env } = world;
  const parentBudget: ParentBudget = { binds: true, reserve, repay() {}, count: async () => null };
  const budget = new RunBudget(limits, env.monotonic(), null, parentBudget);
  const spec = { agent: { manifest: { spec: { limits } } } };
  const runContext = {
    billing: { budget, tree: null },
    deps: { env },
    spec,
    durableRun: null,
    cancellation: new Cancellation(),
  } as unknown as RunContext;
  const reservations = new TaskReservations(runContext);
  return { world, budget, reservations, ask: () => reservations.reserve(asked, () => true) };
}

/** True if a promise is settled after all pending work. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(
    () => (settled = true),
    () => (settled = true),
  );
  await new Promise((resolve) => setImmediate(resolve));
  return settled;
}

test("a reservation that the store refuses reserves nothing; the next gets all", async () => {
  let isAway = true;
  const { budget, ask } = loansOf(async () => {
    if (isAway) throw new SvcError("storage_unavailable");
    return lent;
  });

  await assert.rejects(ask(), { code: "storage_unavailable" });
  isAway = false;
  const next = await ask();

  assert.ok("reservation" in next);
  assert.equal(next.reservation.output_tokens, 300);
  assert.equal(budget.spent.input_tokens, 700);
});

test("a caller that waits for another's reservation continues when that is refused", async () => {
  const answers = [Promise.withResolvers<Breach>(), Promise.withResolvers<BudgetReservation>()];
  let n = 0;
  const { ask } = loansOf(() => (answers[n++] as (typeof answers)[number]).promise);
  const first = ask();
  const second = ask();
  const waited = !(await isSettled(second)) && n === 1;

  answers[0]?.resolve(breach as Breach & BudgetReservation);
  answers[1]?.resolve(lent as Breach & BudgetReservation);

  assert.ok(waited, "there is not enough for both");
  assert.deepEqual(await first, { breach });
  assert.ok("reservation" in (await second));
});

test("a caller that finds everything reserved waits for a return and reserves it", async () => {
  const { reservations, ask } = loansOf(async () => lent);
  const first = await ask();
  assert.ok("reservation" in first);
  const second = ask();
  const waited = !(await isSettled(second));

  reservations.repay(first.reservation.reservation_id, { input_tokens: 100, output_tokens: 10, cost_usd: 0 });
  const next = await second;

  assert.ok(waited, "there is not enough for both");
  assert.ok("reservation" in next);
  assert.equal(next.reservation.output_tokens, 290);
});

test("a run that ends waits for its tasks' reservations, and leaves no timer", async () => {
  const above = Promise.withResolvers<BudgetReservation>();
  const { world, reservations, ask } = loansOf(() => above.promise);
  const asking = ask();

  const settled = reservations.settled();
  const whileAsked = await isSettled(settled);
  above.resolve(lent);
  const given = await asking;
  const whileLent = await isSettled(settled);
  assert.ok("reservation" in given);
  reservations.repay(given.reservation.reservation_id, { input_tokens: 1, output_tokens: 1, cost_usd: 0 });
  await settled;

  assert.deepEqual([whileAsked, whileLent, world.waiting], [false, false, 0]);
});

test("a run that ends waits only a bounded time for its tasks' reservations", async () => {
  const { world, reservations, ask } = loansOf(async () => lent);
  await ask();
  const settled = reservations.settled();

  world.fire();

  assert.ok(await isSettled(settled));
  assert.deepEqual(world.delays, [1_000]);
});
