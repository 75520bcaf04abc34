import { hash } from "node:crypto";
import { entryPoints } from "../../../bus/frames/entry-points.ts";
import type { AskModel, Control, ControlQuestion, GovernedRun } from "../../../governance/controls/control.ts";
import { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { RunDeps } from "./deps.ts";
import { type ArtifactRun, storesResults, storeText } from "./run-artifacts.ts";

/** True if a caller waits for the run and can answer a question. */
export function isAttended({ surface, parent }: Pick<RunSpec, "surface" | "parent">): boolean {
  return parent?.attended ?? entryPoints[surface].attended;
}

/**
 * Returns the key of a call, unique in the tenant. It contains the run's id, which is a secret token, so it leaves svc only as a
 * digest.
 */
export function callKey(runId: string, toolCallId: string): string {
  return `${runId}.${toolCallId}`;
}

/** Returns the ids of a task and of its run, derived from the call: a call that runs again finds its task. */
export function taskNamesOf(runId: string, toolCallId: string): { readonly task_id: string; readonly run_id: string } {
  const named = (what: string) => hash("sha256", `${what} ${callKey(runId, toolCallId)}`, "hex");
  return { task_id: named("task").slice(0, 16), run_id: named("run").slice(0, 32) };
}

/** Returns the key of a call for its tool, which may pass it on. A repeated call has the same key. */
export function callDigest(runId: string, toolCallId: string): string {
  return hash("sha256", callKey(runId, toolCallId), "base64url");
}

/** The part of a run that its controls need. */
type ControlledRun = Pick<GovernedRun, "metrics" | "store" | "attended" | "mode" | "audit"> & {
  readonly askModel: AskModel | null;
  readonly billing: Pick<GovernedRun, "budget">;
  /** Null before there is a run. */
  readonly run: ArtifactRun["run"] | null;
  readonly spec: Pick<RunSpec, "parent" | "keyedAs"> & ArtifactRun["spec"];
  readonly durableRun: object | null;
  readonly eventLog: { readonly threadId: string };
};

/** The view of a run that controls get. A class: V8 turns an object literal with a getter into a slow dictionary, one for each turn. */
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

  askModel(question: ControlQuestion): Promise<unknown> {
    return this.#run.askModel?.(question) ?? Promise.resolve(null);
  }

  get storeText(): GovernedRun["storeText"] {
    const { store, spec, run } = this.#run;
    return run === null || !storesResults(spec)
      ? null
      : (text, of) => storeText({ store, spec, run, deps: this.#deps }, text, of);
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

/** Returns the controls of a run, followed by `others`. */
export function pipelineOf(run: ControlledRun, deps: RunDeps, others: readonly Control[] = []): Pipeline {
  const governed = new Governed(run, deps);
  return new Pipeline([...deps.controls.flatMap((make) => make(governed) ?? []), ...others], () =>
    deps.env.monotonic(),
  );
}
