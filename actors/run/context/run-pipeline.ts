import { hash } from "node:crypto";
import type { EntryPoint } from "../../../bus/protocol/run.ts";
import type { Control, GovernedRun } from "../../../governance/controls/control.ts";
import { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { RunDeps } from "./deps.ts";

/** On which entry points somebody waits for the run who could see to a question (decision 90). */
const attendedOn: Readonly<Record<EntryPoint, boolean>> = {
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
export function isAttended({ surface, parent }: Pick<RunSpec, "surface" | "parent">): boolean {
  return parent?.attended ?? attendedOn[surface];
}

/** A call of a run as the whole tenant knows it. It holds the run's id, which is a token: it leaves svc as a digest. */
export function callKey(runId: string, toolCallId: string): string {
  return `${runId}.${toolCallId}`;
}

/** The names of a task and of its run, as its call has them: who makes the call again finds the task that it has begun. */
export function taskNamesOf(runId: string, toolCallId: string): { readonly task_id: string; readonly run_id: string } {
  const named = (what: string) => hash("sha256", `${what} ${callKey(runId, toolCallId)}`, "hex");
  return { task_id: named("task").slice(0, 16), run_id: named("run").slice(0, 32) };
}

/** The key of a call for its tool, which may give it on: the same however often the call is made. */
export function callDigest(runId: string, toolCallId: string): string {
  return hash("sha256", callKey(runId, toolCallId), "base64url");
}

/** What is known of a run that controls are made for. */
type ControlledRun = Pick<GovernedRun, "metrics" | "store" | "attended" | "mode" | "audit"> & {
  readonly billing: Pick<GovernedRun, "budget">;
  readonly spec: Pick<RunSpec, "agent" | "parent" | "run_id" | "keyedAs">;
  readonly durableRun: object | null;
  readonly eventLog: { readonly threadId: string };
};

/** What controls may know of a run. A class, as an object with a getter among other fields is a hash table to V8: one for each turn. */
export class Governed implements GovernedRun {
  readonly #run: ControlledRun;
  readonly #deps: RunDeps;
  readonly agent: GovernedRun["agent"];
  readonly budget: GovernedRun["budget"];
  readonly metrics: GovernedRun["metrics"];
  readonly store: GovernedRun["store"];
  readonly threadId: string;
  readonly mask: GovernedRun["mask"];
  readonly env: GovernedRun["env"];
  readonly attended: boolean;
  readonly durable: boolean;

  constructor(run: ControlledRun, deps: RunDeps) {
    const { spec } = run;
    this.#run = run;
    this.#deps = deps;
    this.agent = spec.agent;
    this.budget = run.billing.budget;
    this.metrics = run.metrics;
    this.store = run.store;
    this.threadId = spec.parent?.root_thread_id ?? run.eventLog.threadId;
    this.mask = deps.mask;
    this.env = deps.env;
    this.attended = run.attended;
    this.durable = run.durableRun !== null;
  }

  get mode() {
    return this.#run.mode;
  }

  callKey(toolCallId: string): string {
    return callKey(this.#run.spec.keyedAs, toolCallId);
  }

  audit(...row: Parameters<GovernedRun["audit"]>): void {
    this.#run.audit(...row);
  }

  failed(err: unknown): void {
    this.#deps.log.error({ err, run_id: this.#run.spec.run_id }, "a control failed");
  }
}

/** The controls of one run, and `others` beside them. */
export function pipelineOf(run: ControlledRun, deps: RunDeps, others: readonly Control[] = []): Pipeline {
  const governed = new Governed(run, deps);
  return new Pipeline([...deps.controls.flatMap((make) => make(governed) ?? []), ...others], () =>
    deps.env.monotonic(),
  );
}
