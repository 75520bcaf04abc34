import type { Surface } from "../../../bus/protocol/run.ts";
import type { Control, GovernedRun } from "../../../governance/controls/control.ts";
import { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { RunPlan } from "../plan/plan.ts";
import type { RunDeps } from "./deps.ts";

/** On which surfaces somebody waits for the run who could see to a question (decision 90). */
const attendedOn: Readonly<Record<Surface, boolean>> = {
  chat: true,
  chat_stream: true,
  continue: true,
  ask: true,
  compact: true,
  openai: true,
  openai_stream: true,
  responses: true,
  responses_stream: true,
  // As the run above.
  task: false,
  job: false,
  trigger: false,
};

/** Whether somebody waits for a run who could see to a question. */
export function isAttended({ surface, parent }: Pick<RunPlan, "surface" | "parent">): boolean {
  return parent?.attended ?? attendedOn[surface];
}

/** A call of a run as the whole tenant knows it; its tool may give it on, so that nothing is done twice. */
export function callKey(runId: string, toolCallId: string): string {
  return `${runId}.${toolCallId}`;
}

/** What is known of a run that controls are made for. */
type ControlledRun = Pick<GovernedRun, "agent" | "budget" | "metrics" | "store" | "threadId" | "mode" | "audit"> &
  Pick<RunPlan, "run_id" | "keyedAs"> & { readonly attended: boolean; readonly durable: boolean };

/** What controls may know of a run. */
export function governedRun(run: ControlledRun, deps: RunDeps): GovernedRun {
  const { agent, budget, metrics, store, threadId, run_id, keyedAs, attended, durable } = run;
  return {
    agent,
    budget,
    metrics,
    store,
    threadId,
    mask: deps.mask,
    env: deps.env,
    // It may change on the way.
    get mode() {
      return run.mode;
    },
    attended,
    durable,
    callKey: (id) => callKey(keyedAs, id),
    audit: (event_type, status, payload) => run.audit(event_type, status, payload),
    failed: (err) => deps.log.error({ err, run_id }, "a control could not judge"),
  };
}

/** The controls of one run, and `others` beside them. */
export function pipelineOf(run: ControlledRun, deps: RunDeps, others: readonly Control[] = []): Pipeline {
  const governed = governedRun(run, deps);
  return new Pipeline([...deps.controls.flatMap((make) => make(governed) ?? []), ...others], () =>
    deps.env.monotonic(),
  );
}
