import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import {
  appendItems,
  type DatasetRow,
  dueDatasets,
  itemsPage,
  removeDataset,
  skipDueOp,
  storedDataset,
  takeDueOp,
  takenItemId,
  writeDataset,
} from "../../../storage/tables/eval-datasets.ts";
import {
  type AskedEvaluation,
  beginEvalRun,
  deleteOldEvalRuns,
  endEvalRunOps,
  endRestoredEvalRunsOp,
  evalRunById,
  evalRunsPage,
  hasOpenEvalRuns,
  openEvalRuns,
  openItems,
  outcomesOfRun,
  scoreItemOps,
  scoresPage,
} from "../../../storage/tables/eval-runs.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const owner = { sub: "ann", scopes: ["eval:write"], scheme: "api_key", issuer: "" };
const sums = { duration_ms: 5, tokens_input: 3, tokens_output: 2, cost_usd: 0.25, judge_cost_usd: 0, tool_calls: 1 };
const added = { ...sums, tool_errors: 0, judge_fallbacks: 0 };
const asked: AskedEvaluation = {
  ...{ owner, deterministic_judge: false, use_llm_judge: false, judge_model: null, mock: false },
  ...{ concurrency: 2, allow_effects: false },
  cause: "request",
};

for (const dialect of gateDialects) {
  describe(`datasets and runs of evaluations on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let count = 0;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    const freshTenant = (): TenantStore => store.tenant(`evals-${++count}`);
    const items = (...ids: readonly string[]) =>
      ids.map((item_id) => ({ item_id, user_input: `${item_id} "ü" \u{1f98a}`, rubric: '{"contains":"\\u0000"}' }));
    const written = { name: "set", description: "d", allow_effects: 0, continuous: null, owner };
    async function put(tenant: TenantStore, ids: readonly string[], more: object = {}): Promise<DatasetRow> {
      const before = await storedDataset(tenant, "set");
      const options = { now: 7, due_at: null, limit: 100_000, ops: [], ...more };
      await writeDataset(tenant, before, written, items(...ids), options);
      return (await storedDataset(tenant, "set")) as DatasetRow;
    }
    async function begin(tenant: TenantStore, id: string, total: number, ts = 10, limit = 100_000): Promise<void> {
      const bytes = (await storedDataset(tenant, "set"))?.bytes ?? 0;
      const run = { id, ts, dataset_name: "set", candidate_manifest: "m", manifest_version: 2, body: "b" };
      await beginEvalRun(tenant, { ...run, asked: { ...asked, bytes }, seed: "s", total }, { limit, ops: [] });
    }

    test("a dataset is replaced whole, grows in order, and its bytes are counted", async () => {
      const tenant = freshTenant();

      const first = await put(tenant, ["a", "b"]);
      const second = await put(tenant, ["c"]);
      await appendItems(tenant, second, items("d", "e"), { now: 9, limit: 100_000, ops: [] });
      const grown = (await storedDataset(tenant, "set")) as DatasetRow;
      const page = await itemsPage(tenant, "set", 0, 10);

      assert.deepEqual([first.item_count, second.item_count, grown.item_count], [2, 1, 3]);
      assert.deepEqual(
        (await itemsPage(tenant, "set", -1, 10)).map(({ item_id, position }) => [item_id, position]),
        [
          ["c", 0],
          ["d", 1],
          ["e", 2],
        ],
      );
      assert.deepEqual(page[0], { dataset: "set", position: 1, created_at: 9, ...items("d")[0] });
      assert.deepEqual(
        [await takenItemId(tenant, "set", ["x", "d"]), await takenItemId(tenant, "set", ["x"])],
        ["d", null],
      );
      assert.equal(await storedBytes(tenant, "eval_datasets"), grown.bytes);
      await assert.rejects(appendItems(tenant, second, items("f"), { now: 9, limit: 0, ops: [] }), {
        code: "conflict",
      });
      await assert.rejects(put(tenant, ["g", "h", "i", "j"], { limit: 100 }), { code: "storage_quota_exceeded" });
      await removeDataset(tenant, grown, []);
      assert.equal(await storedBytes(tenant, "eval_datasets"), 0);
      assert.deepEqual(await itemsPage(tenant, "set", -1, 10), []);
    });

    test("a run keeps the items of its beginning, and begins only with all of them", async () => {
      const tenant = freshTenant();
      await put(tenant, ["a", "b"]);

      await assert.rejects(begin(tenant, "wrong", 3), { code: "conflict" });
      await begin(tenant, "run", 2);
      await put(tenant, ["z"]);

      assert.deepEqual(
        (await openItems(tenant, "run", -1, 10)).map(({ item_id }) => item_id),
        ["a", "b"],
      );
      assert.equal(await evalRunById(tenant, "wrong"), undefined);
    });

    test("an item is scored once, however many writers score it", async () => {
      const tenant = freshTenant();
      await put(tenant, ["a", "b", "c"]);
      await begin(tenant, "run", 3);
      const score = (position: number, outcome: "pass" | "fail" | "error") =>
        tenant.write(scoreItemOps(tenant, "run", position, { outcome, score: { outcome }, added }));

      const twice = await Promise.allSettled([score(0, "pass"), score(0, "fail")]);
      await score(2, "error");
      const run = await evalRunById(tenant, "run");

      assert.equal(twice.filter(({ status }) => status === "fulfilled").length, 1);
      assert.ok(run);
      assert.deepEqual(
        [run.pass_count + run.fail_count, run.error_count, run.cost_usd, run.tokens_input],
        [1, 1, 0.5, 6],
      );
      assert.deepEqual(
        (await openItems(tenant, "run", -1, 10)).map(({ item_id }) => item_id),
        ["b"],
      );
      assert.deepEqual([...(await outcomesOfRun(tenant, "run", 10)).keys()], ["a", "c"]);
      assert.deepEqual(
        (await scoresPage(tenant, "run", 0, 10)).map(({ item_id, score: text }) => [item_id, JSON.parse(text)]),
        [["c", { outcome: "error" }]],
      );
    });

    test("an ended run takes no score and is deleted with its scores", async () => {
      const tenant = freshTenant();
      await put(tenant, ["a", "b"]);
      await begin(tenant, "old", 2);
      await begin(tenant, "new", 2, 11);
      const end = { status: "completed", error: "", now: 20 } as const;
      const score = { outcome: "pass", score: {}, added } as const;
      await tenant.write(scoreItemOps(tenant, "old", 0, score));
      const open = async () =>
        (await openEvalRuns(store.system, { tenant_id: tenant.tenantId, id: "" }, 10))
          .filter(({ tenant_id }) => tenant_id === tenant.tenantId)
          .map(({ id }) => id);

      assert.deepEqual([await open(), await hasOpenEvalRuns(tenant, 2)], [["new", "old"], true]);
      await tenant.write(endEvalRunOps(tenant, "old", end));
      await assert.rejects(tenant.write(endEvalRunOps(tenant, "old", end)), { code: "conflict" });
      await assert.rejects(tenant.write(scoreItemOps(tenant, "old", 1, score)), { code: "conflict" });
      assert.deepEqual([await open(), await hasOpenEvalRuns(tenant, 2)], [["new"], false]);
      assert.deepEqual(
        (await evalRunsPage(tenant, { dataset_name: "set" }, null, 10)).rows.map(({ id }) => id),
        ["new", "old"],
      );
      assert.equal(await deleteOldEvalRuns(store, 19, 10), 0);
      assert.equal(await deleteOldEvalRuns(store, 20, 10), 1);
      assert.deepEqual([await evalRunById(tenant, "old"), await scoresPage(tenant, "old", -1, 10)], [undefined, []]);
      assert.equal((await openItems(tenant, "new", -1, 10)).length, 2);
    });

    test("the items of a run count against the quota until the run is deleted", async () => {
      const tenant = freshTenant();
      const { bytes } = await put(tenant, ["a", "b"]);
      const counted = () => Promise.all(["eval_runs", "all"].map((kind) => storedBytes(tenant, kind as "eval_runs")));

      await begin(tenant, "counted", 2, 10, 2 * bytes);
      await assert.rejects(begin(tenant, "beyond", 2, 10, 3 * bytes - 1), { code: "storage_quota_exceeded" });
      const during = await counted();
      await tenant.write(endEvalRunOps(tenant, "counted", { status: "completed", error: "", now: 2 }));
      await deleteOldEvalRuns(store, 2, 10);

      assert.deepEqual(
        [during, await counted()],
        [
          [bytes, 2 * bytes],
          [0, bytes],
        ],
      );
      assert.equal(await evalRunById(tenant, "beyond"), undefined);
    });

    test("unfinished runs of a restored backup fail, and missed times are skipped", async () => {
      const tenant = freshTenant();
      await put(tenant, ["a"], { due_at: 5 });
      await begin(tenant, "run", 1);

      await store.system.write([endRestoredEvalRunsOp(store.system), skipDueOp(store.system)]);

      const run = await evalRunById(tenant, "run");
      assert.deepEqual([run?.status, run?.error], ["failed", "restored"]);
      assert.ok(((await storedDataset(tenant, "set"))?.due_at ?? 0) > Date.now());
    });

    test("one of several processes claims a due dataset", async () => {
      const tenant = freshTenant();
      const dataset = await put(tenant, ["a"], { due_at: 5 });

      const due = await dueDatasets(store.system, { tenant_id: tenant.tenantId, name: "" }, 10);
      const claims = [1, 2].map(() => tenant.write([takeDueOp(tenant, dataset, 600_000)]));
      const settled = await Promise.allSettled(claims);
      const after = (await storedDataset(tenant, "set")) as DatasetRow;

      assert.ok(due.some(({ tenant_id, name }) => tenant_id === tenant.tenantId && name === "set"));
      assert.equal(settled.filter(({ status }) => status === "fulfilled").length, 1);
      assert.ok((after.due_at ?? 0) > Date.now());
    });
  });
}
