// The spending of a run with background tasks during short outages of the store. See actors/run/billing/tree-budget.ts.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { TreeBudget } from "../../../../actors/run/billing/tree-budget.ts";
import { Cancellation } from "../../../../actors/runtime/cancellation.ts";
import type { BudgetReservation } from "../../../../bus/protocol/task.ts";
import { isBreach, RunBudget } from "../../../../governance/budget.ts";
import type { RunLimits } from "../../../../manifests/sections/limits.ts";
import type { TenantStore } from "../../../../storage/store/store.ts";
import {
  backgroundTasks,
  joinBudgetOps,
  openBudgetOps,
  reserveOps,
  runBudgetById,
  sharersOf,
} from "../../../../storage/tables/run-budgets.ts";
import { type RefusingStore, refusingStore } from "../../../support/refusing-store.ts";
import { scopeWith } from "../../../support/scope-with.ts";
import { dialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";
import { stillEnv } from "../../models/support.ts";

const rootKey = 7;
const limits: RunLimits = {
  max_tool_calls: 9,
  max_wall_clock_seconds: 60,
  max_peer_hops: 9,
  max_input_tokens: 1_000,
  max_output_tokens: 1_000,
  max_cost_usd: 1,
};
const asked = { input_tokens: 10, output_tokens: 100 };
const used = (output_tokens: number) => ({ input_tokens: 10, output_tokens, cost_usd: 0 });
const away = { code: "storage_unavailable" };

for (const dialect of dialects) {
  describe(`a shared budget, on ${dialect}`, () => {
    const atEnd = cleanup();
    let shared: RefusingStore;
    let store: TenantStore;
    let runId: string;
    let ids = 0;
    before(async () => {
      shared = refusingStore((await testStore(dialect, atEnd)).store);
      store = shared.tenant("acme");
    });
    // The budget of a run that has begun a background task.
    beforeEach(async () => {
      runId = `run-${++ids}`;
      const max = {
        max_tool_calls: 9,
        max_hops: 9,
        max_input_tokens: 1_000,
        max_output_tokens: 1_000,
        max_cost_usd: 1,
      };
      const all = { tool_calls: 0, hops: 0, ...used(0), input_tokens: 0 };
      const nothing = { ...used(0), input_tokens: 0 };
      const task = { run_id: `task-${ids}`, task_id: "task", root_key: rootKey, budgets: [runId] };
      const opened = openBudgetOps(store, { run_id: runId, root_key: rootKey, ...max, ...all }, nothing);
      await store.write([...opened, ...joinBudgetOps(store, task, 1_000)]);
    });

    function tree(isResumed = false, of: TenantStore = store, budgets: readonly string[] | null = [runId]): TreeBudget {
      const spender = { runId, rootKey, budgets, isResumed, isPriced: false, workflowRunId: null };
      const { env } = stillEnv();
      const parts = { store: of, env, cancellation: new Cancellation(), onGone: () => {}, above: null };
      return new TreeBudget(spender, parts);
    }
    async function lent(by: TreeBudget): Promise<BudgetReservation> {
      const reservation = await by.reserve(asked, null);
      assert.ok(reservation !== null && "reservation_id" in reservation, JSON.stringify(reservation));
      return reservation;
    }
    const output = async () => Number((await runBudgetById(store, runId))?.output_tokens);
    const isHeld = async () => (await sharersOf(store, runId, `task-${ids}`)).holding > 0;

    test("DEL-006 a background task below a workflow counts for its own thread", async () => {
      const [flow, thread] = [`flow-${ids}`, 4_000 + ids];
      const max = Number.MAX_SAFE_INTEGER;
      const limits = { max_tool_calls: max, max_hops: max, max_input_tokens: max, max_output_tokens: max };
      const nothing = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };
      const row = { run_id: flow, root_key: -1, ...limits, max_cost_usd: 1, tool_calls: 0, hops: 0, ...nothing };
      const task = (id: string) => ({ run_id: id, task_id: id, root_key: thread, budgets: [flow] });
      await store.write([...openBudgetOps(store, row, nothing), ...joinBudgetOps(store, task(`a-${ids}`), 1)]);

      const second = store.write(joinBudgetOps(store, task(`b-${ids}`), 1));

      await assert.rejects(second, { code: "conflict" });
      assert.equal(await backgroundTasks(store, thread), 1);
    });

    test("DEL-006 usage of an uncertain write counts once, with later usage", async () => {
      const budget = tree();
      const [one, two] = [await lent(budget), await lent(budget)];
      Object.assign(shared, { unanswered: "run_budget_settle_once" });
      budget.repay(one.reservation_id, used(5));
      await assert.rejects(budget.reserve(asked, null), away);
      assert.equal(await output(), 105, "it was written");
      budget.repay(two.reservation_id, used(7));
      await assert.rejects(budget.reserve(asked, null), away);
      shared.unanswered = null;

      const three = await lent(budget);
      assert.equal(await output(), 112);
      budget.repay(three.reservation_id, used(1));
      await store.write(budget.takeOps());
      assert.equal(await output(), 13);
      assert.equal(await isHeld(), false);
    });

    for (const isWritten of [true, false])
      test(`DEL-006 usage of an uncertain write goes with the last batch of the run (it ${isWritten ? "was" : "was not"})`, async () => {
        const budget = tree();
        const [one, two] = [await lent(budget), await lent(budget)];
        Object.assign(shared, { [isWritten ? "unanswered" : "refused"]: "run_budget_settle_once", once: false });
        budget.repay(one.reservation_id, used(5));
        await assert.rejects(budget.reserve(asked, null), away);
        Object.assign(shared, { unanswered: null, refused: null });
        budget.repay(two.reservation_id, used(7));

        await store.write(budget.lastOps());

        assert.equal(await output(), 12);
        assert.equal(await isHeld(), false);
      });

    test("DEL-006 usage during a write is not counted as part of it", async () => {
      const budget = tree();
      const [one, two] = [await lent(budget), await lent(budget)];
      budget.repay(one.reservation_id, used(1));
      const third = lent(budget);
      budget.repay(two.reservation_id, used(2));
      budget.repay((await third).reservation_id, used(3));
      await store.write(budget.takeOps());
      assert.equal(await output(), 6);
      assert.equal(await isHeld(), false);
    });

    test("DEL-006 a budget whose sharing is uncertain is shared on a retry", async () => {
      runId = `alone-${ids}`;
      const own = new RunBudget(limits, 0);
      const budget = tree(false, store, null);
      const reserved = own.reserve(10, 100, null, 0);
      assert.ok(!isBreach(reserved));
      const { reservation_id } = await lent(budget);
      Object.assign(shared, { unanswered: "run_budgets_upsert" });
      await assert.rejects(budget.share(own, limits), away);
      shared.unanswered = null;
      assert.equal(await output(), 100, "it is");
      budget.repay(reservation_id, used(5));
      own.settle(reserved, { input: 10, output: 5, cacheRead: 0, cacheWrite: 0 }, null);

      await budget.share(own, limits);

      assert.equal(await output(), 5);
      assert.equal(await isHeld(), false);
    });

    test("DEL-006 a budget whose sharing is uncertain ends with its run", async () => {
      runId = `alone-${ids}`;
      const budget = tree(false, store, null);
      Object.assign(shared, { unanswered: "run_budgets_upsert" });
      await assert.rejects(budget.share(new RunBudget(limits, 0), limits), away);
      shared.unanswered = null;

      await store.write(budget.lastOps());

      assert.equal(await runBudgetById(store, runId), undefined);
    });

    test("DEL-006 reservations of a dead process are released after an outage", async () => {
      await store.write(reserveOps(store, [runId], runId, used(950)));
      const budget = tree(true);
      Object.assign(shared, { refused: "budget_shares_clear", once: true });
      await assert.rejects(budget.reserve(asked, null), away);

      await lent(budget);
      assert.equal(await output(), 100);
    });

    test("DEL-006 concurrent callers reserve nothing before old reservations are released", async () => {
      await store.write(reserveOps(store, [runId], runId, used(500)));
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const slow = scopeWith(store, {
        write: async (ops) => {
          if (ops.some(({ statement }) => statement.name === "budget_shares_clear")) await released;
          return store.write(ops);
        },
      });
      const budget = tree(true, slow);
      const reservations = [lent(budget), lent(budget)];
      await runBudgetById(store, runId);
      assert.equal(await output(), 500, "nothing more is set aside");
      release();

      for (const reservation of reservations) budget.repay((await reservation).reservation_id, used(3));
      await store.write(budget.takeOps());
      assert.equal(await output(), 6);
    });
  });
}
