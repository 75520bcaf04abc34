import type { Logger } from "pino";
import { evalsAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import { type Env, orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RepeatedTask, ScheduledTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { type DueDataset, dueDatasets, storedDataset } from "../../storage/tables/eval-datasets.ts";
import { type OpenEvalRun, openEvalRuns } from "../../storage/tables/eval-runs.ts";

const pageRows = 200;
/** Concurrent items of a continuous evaluation. */
const concurrency = 4;

interface SweepDeps {
  readonly store: Store;
  readonly bus: Bus;
  readonly env: Env;
  readonly log: Pick<Logger, "warn">;
}

/** Wakes the actor of every unfinished evaluation. Returns their number. */
async function lookAtEvaluations({ store, bus }: Pick<SweepDeps, "store" | "bus">): Promise<number> {
  let count = 0;
  for (let after: OpenEvalRun = { tenant_id: "", id: "" }; ; ) {
    const page = await openEvalRuns(store.system, after, pageRows);
    for (const { tenant_id, id } of page) bus.tell(evalsAddress(tenant_id, id), "look", {});
    count += page.length;
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return count;
    after = last;
  }
}

/**
 * Starts the evaluation of every dataset whose time has come, on behalf of its last author. The start claims the time, so one of
 * several hosts starts it.
 */
async function startDueEvaluations(deps: SweepDeps): Promise<void> {
  for (let after: DueDataset = { tenant_id: "", name: "" }; ; ) {
    const page = await dueDatasets(deps.store.system, after, pageRows);
    for (const due of page) await startDue(due, deps);
    const last = page.at(-1);
    if (last === undefined || page.length < pageRows) return;
    after = last;
  }
}

async function startDue({ tenant_id, name }: DueDataset, { store, bus, env, log }: SweepDeps): Promise<void> {
  const dataset = await storedDataset(store.tenant(tenant_id), name);
  if (dataset?.continuous == null || dataset.due_at === null) return;
  const { continuous, owner, due_at } = dataset;
  const options = { deterministic_judge: false, use_llm_judge: false, judge_model: null, mock: false, concurrency };
  try {
    await bus.ask(evalsAddress(tenant_id, orderedId(env)), "start", {
      principal: { tenant_id, ...owner },
      dataset_name: name,
      manifest: continuous.manifest,
      version: null,
      body: null,
      options,
      due_at,
    });
  } catch (thrown) {
    const { code } = SvcError.from(thrown);
    // With a conflict, another host has started it.
    if (code !== "conflict") log.warn({ tenant_id, dataset: name, code }, "a continuous evaluation could not start");
  }
}

/** Interval at which unfinished evaluations continue after a crash. */
const lookMs = 5_000;

/** Continues evaluations. */
export const evaluationsTask: RepeatedTask<Pick<SweepDeps, "store" | "bus">> = {
  name: "eval_runs",
  of: "scheduler",
  async run(deps) {
    await lookAtEvaluations(deps);
    return lookMs;
  },
};

/** Starts continuous evaluations. */
export const continuousEvalTask: ScheduledTask<SweepDeps> = {
  name: "continuous_eval",
  of: "scheduler",
  schedule: "*/10 * * * *",
  run: startDueEvaluations,
};
