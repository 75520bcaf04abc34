import type { StepDefinition, StepWork, WorkflowDefinition } from "../../governance/workflows/definition.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { WorkflowRunRow, WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";
import type { RevisionRow } from "../../storage/tables/workflows.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { WorkflowDeps } from "./deps.ts";
import type { Draft } from "./draft.ts";
import type { KindServices, StepKind, Unit } from "./step-kind.ts";

/** The items of a map and the untrusted sources of their list. */
export interface MapItems {
  readonly value: readonly unknown[];
  readonly taint: readonly string[];
}

/** What a run works on and with. It does not change during the run. */
export interface RunPlan {
  readonly context: ActorContext<WorkflowDeps>;
  readonly services: KindServices;
  readonly definition: WorkflowDefinition;
  readonly revision: RevisionRow;
  readonly byId: ReadonlyMap<string, StepDefinition>;
  /** The items of the maps that have begun, by step. */
  readonly mapItems: Map<string, MapItems>;
}

/** One transition of a run: what it changes, and what follows its batch. */
export interface Turn {
  readonly plan: RunPlan;
  readonly draft: Draft;
  readonly now: number;
  /** True if a person stops the run. */
  readonly isCancelled: boolean;
  /** Further statements of the batch. */
  readonly ops: WriteOp[];
  /** Work that starts and stops after the batch. */
  readonly starts: Unit[];
  readonly cancels: Unit[];
  /** True if more steps can begin than one batch begins. */
  hasMore: boolean;
}

/** Returns the kind of a step; undefined while its plugin is missing. */
export function kindOf({ context }: RunPlan, work: Pick<StepWork, "kind">): StepKind | undefined {
  return context.deps.stepKinds.get(work.kind);
}

/** Returns the work of a step, or of the items of a map. */
export function workOf({ byId }: RunPlan, { step_id, item }: Pick<WorkflowStepRow, "step_id" | "item">): StepWork {
  const step = byId.get(step_id);
  if (step === undefined) throw new Error(`the revision has no step ${step_id}`);
  return item < 0 ? step : innerOf(step);
}

/** Returns the work of the items of a map. */
export function innerOf({ config }: StepDefinition): StepWork {
  const { kind, config: own = {}, retry, timeout_seconds = null, on_error = "fail" } = config.step as Partial<StepWork>;
  return {
    kind: String(kind),
    config: own,
    retry: { max: 0, backoff_seconds: 10, ...retry },
    timeout_seconds,
    on_error,
  };
}

/** True for the row of a map, whose items do its work. */
export function isMapRow({ byId }: RunPlan, { step_id, item }: Pick<WorkflowStepRow, "step_id" | "item">): boolean {
  return item < 0 && byId.get(step_id)?.kind === "map";
}

/** True if the run begins no more work. */
export function isStopping({ status, error }: Pick<WorkflowRunRow, "status" | "error">): boolean {
  return status === "cancelling" || error !== null;
}
