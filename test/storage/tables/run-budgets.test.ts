// Budgets that parallel runs share, on both engines. See storage/tables/run-budgets.ts.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { SvcError } from "../../../bus/errors.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  backgroundTasks,
  countCallOps,
  deleteBudgetsOps,
  joinBudgetOps,
  leaveBudgetOps,
  openBudgetOps,
  reserveOps,
  resetShareOps,
  runBudgetById,
  settleOps,
  sharersOf,
} from "../../../storage/tables/run-budgets.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const nothing = { input_tokens: 0, output_tokens: 0, cost_usd: 0 };
const tokens = (output_tokens: number) => ({ input_tokens: 1, output_tokens, cost_usd: 0.25 });

for (const dialect of dialects) {
  describe(`budgets of runs and their tasks, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let tenant: TenantStore;
    let count = 0;
    let ids = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
      tenant = store.tenant("acme");
    });

    async function opened(rootKey = ++count): Promise<{ id: string; rootKey: number }> {
      const id = `root-${++ids}`;
      const bounds = {
        max_tool_calls: 3,
        max_hops: 1,
        max_input_tokens: 100,
        max_output_tokens: 100,
        max_cost_usd: 10,
      };
      const used = { tool_calls: 1, hops: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0 };
      await tenant.write(openBudgetOps(tenant, { run_id: id, root_key: rootKey, ...bounds, ...used }, nothing));
      return { id, rootKey };
    }
    const written = (ops: readonly WriteOp[]): Promise<boolean> =>
      tenant.write(ops).then(
        () => true,
        (error) => {
          assert.ok(error instanceof SvcError && error.code === "conflict", String(error));
          return false;
        },
      );
    const join = (run_id: string, budgets: readonly string[], root_key: number, most = 3) =>
      written(joinBudgetOps(tenant, { run_id, task_id: `task of ${run_id}`, root_key, budgets }, most));
    const outputOf = async (id: string) => (await runBudgetById(tenant, id))?.output_tokens;

    test("DEL-006 concurrent reservations never pass the bound together", async () => {
      const { id, rootKey } = await opened();
      const runs = ["x", "y", "z"].map((name) => `${name}-${id}`);
      for (const run of runs) assert.ok(await join(run, [id], rootKey));

      const taken = await Promise.all(
        Array.from({ length: 12 }, (_, at) =>
          written(reserveOps(tenant, [id], runs[at % 3] ?? "", tokens(30))).then((isTaken) => (isTaken ? 1 : 0)),
        ),
      );

      assert.equal(
        taken.reduce((all: number, one) => all + one, 0),
        3,
      );
      assert.equal(await outputOf(id), 90);
      const calls = await Promise.all(Array.from({ length: 5 }, () => written(countCallOps(tenant, [id], false))));
      assert.equal(calls.filter(Boolean).length, 2, "one was made before");
    });

    test("DEL-007 concurrent starts succeed up to the bound, however nested", async () => {
      const { id, rootKey } = await opened();
      const inner = (await opened(rootKey)).id;

      const begun = await Promise.all(
        Array.from({ length: 8 }, (_, at) => join(`run-${at}-${id}`, at % 2 ? [id] : [id, inner], rootKey)),
      );

      assert.equal(begun.filter(Boolean).length, 3);
      assert.equal(await backgroundTasks(tenant, rootKey), 3);
      assert.equal(await backgroundTasks(store.tenant("globex"), rootKey), 0);
      const first = begun.indexOf(true);
      await tenant.write(leaveBudgetOps(tenant, `run-${first}-${id}`));
      assert.ok(await join(`later-${id}`, [id], rootKey));
    });

    test("DEL-006 usage counts, a lost process's reservations return, the last share ends the row", async () => {
      const { id, rootKey } = await opened();
      await join(`t-${id}`, [id], rootKey);
      await tenant.write(reserveOps(tenant, [id], `t-${id}`, tokens(40)));
      await tenant.write(settleOps(tenant, [id], `t-${id}`, { aside: tokens(40), used: tokens(7) }, null));
      await tenant.write(reserveOps(tenant, [id], `t-${id}`, tokens(50)));
      assert.equal(await outputOf(id), 57);
      assert.deepEqual(await sharersOf(tenant, id, id), { sharers: 2, holding: 1, isOwned: true });
      assert.deepEqual(await sharersOf(tenant, id, `t-${id}`), { sharers: 2, holding: 0, isOwned: true });

      await tenant.write(resetShareOps(tenant, `t-${id}`, 0));
      assert.equal(await outputOf(id), 7);
      assert.deepEqual(await sharersOf(tenant, id, id), { sharers: 2, holding: 0, isOwned: true });
      await tenant.write(reserveOps(tenant, [id], `t-${id}`, tokens(50)));
      await tenant.write(leaveBudgetOps(tenant, id));
      assert.equal(await outputOf(id), 57, "it outlives its run");
      assert.deepEqual(await sharersOf(tenant, id, id), { sharers: 1, holding: 1, isOwned: false });
      await tenant.write(leaveBudgetOps(tenant, `t-${id}`));
      assert.equal(await outputOf(id), undefined);
    });

    test("DEL-005 tasks that their parent waits for take no part of a budget from it", async () => {
      const { id, rootKey } = await opened();
      const names = [`t-${id}`, `u-${id}`];
      for (const run_id of names)
        await tenant.write(joinBudgetOps(tenant, { run_id, task_id: null, root_key: rootKey, budgets: [id] }, 0));
      await join(`v-${id}`, [id], rootKey);

      assert.deepEqual(await sharersOf(tenant, id, id), { sharers: 2, holding: 0, isOwned: true });
      const gone = { run_id: "w", task_id: null, root_key: rootKey, budgets: ["no budget"] };
      await assert.rejects(tenant.write(joinBudgetOps(tenant, gone, 0)), { code: "conflict" });
    });

    test("DEL-006 a repeated report with the same number counts once for each spender", async () => {
      const { id, rootKey } = await opened();
      const runs = [`t-${id}`, `u-${id}`] as const;
      const settle = (run: string, used: number, number: number) =>
        tenant.write(settleOps(tenant, [id], run, { aside: tokens(20), used: tokens(used) }, number));
      for (const run of runs) {
        await join(run, [id], rootKey);
        await tenant.write(reserveOps(tenant, [id], run, tokens(20)));
      }

      await settle(runs[0], 5, 1);
      await settle(runs[0], 5, 1);
      assert.equal(await outputOf(id), 25);
      await settle(runs[1], 3, 1);
      await tenant.write(reserveOps(tenant, [id], runs[0], tokens(20)));
      await settle(runs[0], 1, 2);
      await settle(runs[0], 5, 1);
      assert.equal(await outputOf(id), 9);
      assert.deepEqual(await sharersOf(tenant, id, id), { sharers: 3, holding: 0, isOwned: true });

      await tenant.write(resetShareOps(tenant, runs[0], 10));
      await tenant.write(reserveOps(tenant, [id], runs[0], tokens(20)));
      await settle(runs[0], 5, 3);
      assert.equal(await outputOf(id), 29, "said by a process that is gone");
      await settle(runs[0], 2, 11);
      assert.equal(await outputOf(id), 11);
    });

    test("DEL-006 concurrent duplicate reports and releases count once", async () => {
      for (let round = 0; round < 20; round++) {
        const { id, rootKey } = await opened();
        const run = `t-${id}`;
        await join(run, [id], rootKey);
        await tenant.write(reserveOps(tenant, [id], run, tokens(20)));
        const settled = settleOps(tenant, [id], run, { aside: tokens(20), used: tokens(5) }, 1);
        await Promise.all([settled, settled, settled].map((ops) => tenant.write(ops)));
        assert.equal(await outputOf(id), 5);

        await tenant.write(reserveOps(tenant, [id], run, tokens(20)));
        await Promise.all([1, 2, 3].map((number) => tenant.write(resetShareOps(tenant, run, number))));
        assert.equal(await outputOf(id), 5);
      }
    });

    test("DEL-006 deleting the conversation deletes the budget and refuses joins and reservations", async () => {
      const { id, rootKey } = await opened();
      await join(`t-${id}`, [id], rootKey);

      await tenant.write(deleteBudgetsOps(tenant, rootKey));

      assert.equal(await backgroundTasks(tenant, rootKey), 0);
      assert.equal(await join(`u-${id}`, [id], rootKey), false);
      assert.equal(await written(reserveOps(tenant, [id], `t-${id}`, tokens(1))), false);
    });
  });
}
