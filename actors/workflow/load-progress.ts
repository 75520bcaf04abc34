import type { TenantStore } from "../../storage/store/store.ts";
import { itemsOfStep, stepsOfRun, workflowRunById } from "../../storage/tables/workflow-runs.ts";
import { workflowRevision } from "../../storage/tables/workflows.ts";
import type { ActorContext } from "../runtime/define.ts";
import { storedDefinition } from "./begin-run.ts";
import type { WorkflowDeps } from "./deps.ts";
import { isOpen } from "./draft.ts";
import { RunProgress } from "./run-progress.ts";

/** Returns the progress of an unfinished run, as its rows have it; null for any other. */
export async function loadProgress(
  store: TenantStore,
  runId: string,
  context: ActorContext<WorkflowDeps>,
): Promise<RunProgress | null> {
  const run = await workflowRunById(store, runId);
  if (run === undefined || run.finished_at !== null) return null;
  const [revision, steps] = await Promise.all([
    workflowRevision(store, run.workflow_id, run.revision),
    stepsOfRun(store, runId),
  ]);
  if (revision === undefined) throw new Error("the revision of a run of a workflow is gone");
  const definition = storedDefinition(revision.definition, context.deps.stepKinds);
  const kinds = new Map(definition.steps.map(({ id, kind }) => [id, kind]));
  const maps = steps.filter((step) => isOpen(step) && kinds.get(step.step_id) === "map");
  const items = (await Promise.all(maps.map(({ step_id }) => itemsOfStep(store, runId, step_id)))).flat();
  return new RunProgress(store, { run, steps, items, revision, definition }, context);
}
