// Budgets of SVC_BUDGETS under random histories of calls, crashes and midnights: no period is exceeded.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { SpendBudgets } from "../../../actors/spending/spend-budgets.ts";
import type { BudgetReservation } from "../../../bus/protocol/task.ts";
import { StoredAccess } from "../../../governance/auth/stored-access.ts";
import type { Budget } from "../../../governance/settings/budgets.ts";
import { periodAt, Spending } from "../../../governance/spending.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { spendingOfPeriod } from "../../../storage/tables/budget-spending.ts";
import type { RuntimeKeyRow } from "../../../storage/tables/runtime-keys.ts";
import { runs } from "../../support/effort.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const dayMs = 86_400_000;
const price = { input: 2, output: 8, cache_read: 0.5, cache_write: 2 };

const budget = (fields: Partial<Budget>): Budget => ({
  ...{ id: "b", tenant_id: "t", principal: null, manifest: null, period: "day", tokens: null, usd: null, webhooks: [] },
  ...fields,
});

/** One process's clock. */
function clock() {
  let at = 100 * dayMs;
  let ids = 0;
  return {
    now: () => at,
    id: () => `r${++ids}`,
    move: (ms: number) => {
      at += ms;
    },
  };
}

/** A run that spends from the budgets of its tenant. */
function spender(store: TenantStore, budgets: readonly Budget[], env: ReturnType<typeof clock>, sub = "ann") {
  const applied = new Spending(budgets, new StoredAccess()).applied(store.tenantId, { sub }, "agent", env.now());
  return new SpendBudgets(applied, null, { store, env: env as never, onSpent: () => {} });
}

const isReservation = (found: unknown): found is BudgetReservation =>
  typeof found === "object" && found !== null && "reservation_id" in found;

for (const dialect of dialects)
  describe(`budgets of tenants on ${dialect}`, () => {
    const atEnd = cleanup();
    let opened: TestStore;
    let store: Store;
    let count = 0;
    before(async () => {
      opened = await testStore(dialect, atEnd);
      store = opened.store;
    });

    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant("call" as const),
          run: fc.nat(3),
          input: fc.nat(400),
          output: fc.integer({ min: 1, max: 900 }),
          used: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("crash" as const), run: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("lost" as const), run: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("night" as const) }) },
    );
    const history = fc.record({
      tokens: fc.integer({ min: 0, max: 6_000 }),
      usd: fc.double({ min: 0, max: 0.02, noNaN: true }),
      steps: fc.array(step, { minLength: 1, maxLength: 25 }),
    });

    test("random histories with crashes never pass a limit", async () => {
      await fc.assert(
        fc.asyncProperty(history, async ({ tokens, usd, steps }) => {
          const tenant = store.tenant(`h${++count}`);
          const budgets = [
            budget({ id: "both", tenant_id: tenant.tenantId, tokens, usd }),
            budget({ id: "month", tenant_id: tenant.tenantId, period: "month", tokens: tokens * 2 }),
          ];
          const env = clock();
          const periods = new Set<number>([env.now()]);
          const fresh = () => spender(tenant, budgets, env);
          const processes = [fresh(), fresh(), fresh(), fresh()];
          const spent = new Map<number, number>();
          // Runs of one round call at the same time, as in several processes.
          for (let at = 0; at < steps.length; at += 4)
            await Promise.all(
              steps.slice(at, at + 4).map(async (each) => {
                if (each.do === "night") {
                  env.move(dayMs);
                  periods.add(env.now());
                  return;
                }
                const own = processes[each.run] as SpendBudgets;
                if (each.do === "lost") {
                  // The batch with the settlement is lost.
                  own.takeOps();
                  return;
                }
                if (each.do === "crash") {
                  await own.reserve({ input_tokens: 10, output_tokens: 300 }, price);
                  processes[each.run] = fresh();
                  return;
                }
                const day = periodAt(budgets[0] as Budget, env.now()).start;
                const found = await own.reserve({ input_tokens: each.input, output_tokens: each.output }, price);
                if (!isReservation(found)) return;
                const input_tokens = found.input_tokens;
                const output_tokens = Math.floor(found.output_tokens * each.used);
                const cost_usd = (input_tokens * price.input + output_tokens * price.output) / 1e6;
                assert.ok(cost_usd <= found.cost_usd + 1e-9);
                own.repay(found.reservation_id, { input_tokens, output_tokens, cost_usd });
                spent.set(day, (spent.get(day) ?? 0) + input_tokens + output_tokens);
                await tenant.write([...own.takeOps()]);
              }),
            );

          for (const now of periods) {
            const { start } = periodAt(budgets[0] as Budget, now);
            const [row] = await spendingOfPeriod(tenant, "both", start, 5);
            assert.ok((row?.tokens ?? 0) <= tokens && (row?.usd ?? 0) <= usd + 1e-6, JSON.stringify(row));
            assert.ok((row?.settled_tokens ?? 0) <= (row?.tokens ?? 0));
            assert.ok((spent.get(start) ?? 0) <= tokens);
          }
          const months = new Set([...periods].map((now) => periodAt(budgets[1] as Budget, now).start));
          for (const start of months) {
            const [row] = await spendingOfPeriod(tenant, "month", start, 5);
            assert.ok((row?.tokens ?? 0) <= tokens * 2);
          }
        }),
        { numRuns: runs(2_000), endOnFailure: true },
      );
    });

    test("two processes share a budget to its last token", async () => {
      const tenants = [opened.another(), opened.another()].map((each) => each.tenant("shared"));
      const budgets = [budget({ tenant_id: "shared", tokens: 20_000 })];
      const env = clock();
      let used = 0;

      await Promise.all(
        tenants.map(async (tenant) => {
          for (;;) {
            const own = spender(tenant, budgets, env);
            const found = await own.reserve({ input_tokens: 100, output_tokens: 400 }, price);
            if (!isReservation(found)) return;
            const { input_tokens, output_tokens } = found;
            used += input_tokens + output_tokens;
            own.repay(found.reservation_id, { input_tokens, output_tokens, cost_usd: 0 });
            await tenant.write([...own.takeOps()]);
          }
        }),
      );

      const [row] = await spendingOfPeriod(
        store.tenant("shared"),
        "b",
        periodAt({ period: "day" }, env.now()).start,
        5,
      );
      assert.deepEqual([row?.tokens, row?.settled_tokens, used], [20_000, 20_000, 20_000]);
    });

    test("a call gets the output that is left, and none below the minimum", async () => {
      const tenant = store.tenant("rest");
      const budgets = [budget({ tenant_id: "rest", tokens: 1_000 })];
      const own = spender(tenant, budgets, clock());

      const large = await own.reserve({ input_tokens: 100, output_tokens: 32_000 }, price);
      const none = await own.reserve({ input_tokens: 1, output_tokens: 32_000 }, price);
      assert.ok(isReservation(large));
      own.repay(large.reservation_id, { input_tokens: 100, output_tokens: 700, cost_usd: 0 });
      await tenant.write([...own.takeOps()]);
      const small = await own.reserve({ input_tokens: 1, output_tokens: 32_000 }, price);
      const tiny = await own.reserve({ input_tokens: 1, output_tokens: 100 }, price);

      assert.equal(large.output_tokens, 900);
      assert.deepEqual(none, { limit: "budget", detail: "budget b is spent for this day" });
      assert.deepEqual(small, none);
      assert.ok(isReservation(tiny) && tiny.output_tokens === 100);
    });
  });

test("a job spends from the budgets of its author's keys, and of the keys above them", () => {
  const row = { id: "1", sub: "key:1", budget: { period: "day", tokens: 5, usd: null } };
  const access = { payingKeys: (_: string, sub: string) => (sub === "key:1" ? [row as unknown as RuntimeKeyRow] : []) };

  const applied = new Spending([], access).applied("acme", { sub: "cron", behalf: "key:1" }, "agent", 0);

  assert.deepEqual(
    applied.map(({ budget, subject }) => [budget.id, budget.tokens, budget.usd, subject]),
    [["key:1", 5, null, ""]],
  );
});

test("callers of a plugin share its budget in each tenant without a budget for them", () => {
  const own: Budget = {
    ...{ id: "own", tenant_id: "acme", principal: "shopper:1", manifest: null, period: "day", tokens: 7, usd: null },
    webhooks: [],
  };
  const ofPlugin = { id: "shop:day", sub: "shopper:", period: "day" as const, tokens: 9 };
  const spending = new Spending([own], new StoredAccess(), [ofPlugin]);
  const ids = (tenant: string, sub: string) =>
    spending.applied(tenant, { sub }, "agent", 0).map(({ budget, subject }) => [budget.id, budget.tokens, subject]);

  assert.deepEqual(ids("acme", "shopper:1"), [["own", 7, ""]]);
  assert.deepEqual(ids("acme", "shopper:2"), [["shop:day", 9, ""]]);
  assert.deepEqual(ids("globex", "shopper:1"), [["shop:day", 9, ""]]);
  assert.deepEqual(ids("globex", "ann"), []);
});
