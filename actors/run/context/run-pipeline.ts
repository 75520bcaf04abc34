import { hash } from "node:crypto";
import { cutText } from "../../../bus/cut-text.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type {
  AskModel,
  Control,
  ControlDecided,
  ControlDecision,
  ControlQuestion,
  GovernedRun,
  TaintedText,
} from "../../../governance/controls/control.ts";
import { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { QuarantinedOf } from "../../../governance/controls/verdicts.ts";
import { eventId } from "../../../storage/tables/events.ts";
import { type ContextMessage, seqOf } from "../../log/message.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { RunDeps } from "./deps.ts";
import { type ArtifactRun, storesResults, storeText } from "./run-artifacts.ts";
import { quarantine } from "./run-quarantine.ts";

/** True if a caller waits for the run and can answer a question. */
export function isAttended({ surface, parent }: Pick<RunSpec, "surface" | "parent">): boolean {
  return parent?.attended ?? entryPointOf(surface).attended;
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

const none: readonly string[] = [];
/** Characters of a thread's part of an event id. */
const uidChars = 20;
/** Max characters of a tainted text that people are shown. */
const taintedMax = 200;

/** The part of a run that its controls need. */
type ControlledRun = Pick<GovernedRun, "metrics" | "store" | "attended" | "mode" | "audit"> & {
  readonly askModel: AskModel | null;
  readonly decide: GovernedRun["decide"] | null;
  readonly hooks: GovernedRun["hooks"];
  tellModel: GovernedRun["tellModel"];
  readonly billing: Pick<GovernedRun, "budget">;
  /** Null before there is a run. */
  readonly run: ArtifactRun["run"] | null;
  readonly spec: Pick<RunSpec, "parent" | "keyedAs" | "evaluation"> & ArtifactRun["spec"];
  readonly durableRun: object | null;
  readonly eventLog: { readonly threadId: string; leafIdAfter?(count: number): string };
  /** The messages of the agent; null before there is a run. */
  readonly branch: { readonly messages: readonly ContextMessage[] } | null;
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
  readonly compute: GovernedRun["compute"];
  readonly detectors: GovernedRun["detectors"];
  readonly hooks: GovernedRun["hooks"];
  readonly attended: boolean;
  readonly durable: boolean;
  readonly allowsEffects: boolean;

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
    this.compute = deps.compute;
    this.detectors = deps.detectors;
    this.hooks = run.hooks;
    this.attended = run.attended;
    this.durable = run.durableRun !== null;
    this.allowsEffects = spec.evaluation?.allow_effects ?? true;
  }

  get mode() {
    return this.#run.mode;
  }

  askModel(question: ControlQuestion): Promise<unknown> {
    return this.#run.askModel?.(question) ?? Promise.resolve(null);
  }

  tellModel(texts: readonly string[]): void {
    this.#run.tellModel(texts);
  }

  decide(question: ControlDecision): Promise<ControlDecided> {
    return this.#run.decide?.(question) ?? Promise.resolve({ kind: "error" });
  }

  get storeText(): GovernedRun["storeText"] {
    const { store, spec, run } = this.#run;
    return run === null || !storesResults(spec)
      ? null
      : (text, of) => storeText({ store, spec, run, deps: this.#deps }, text, of);
  }

  async quarantine(text: string, of: QuarantinedOf): Promise<string | null> {
    const { store, spec } = this.#run;
    const { threadId } = this;
    return quarantine(
      {
        store,
        deps: this.#deps,
        thread_key: spec.thread_suffix === null ? null : spec.thread_key,
        threadId,
        manifest: this.agent.name,
        retentionDays: this.agent.retentionDays,
      },
      text,
      of,
    );
  }

  get taint(): readonly string[] {
    return this.#run.run?.taint.sources ?? none;
  }

  tainted(sources: readonly string[]): TaintedText[] {
    const messages = this.#run.branch?.messages ?? [];
    return sources.flatMap((source) => {
      const found = messages.find(({ role, taint }) => role !== "assistant" && taint?.includes(source) === true);
      if (found === undefined) return { source, event_id: "", text: "" };
      const at = seqOf(found);
      const newest = this.#run.eventLog.leafIdAfter?.(0) ?? "";
      const event_id = newest === "" || at < 0 ? "" : eventId(newest.slice(0, uidChars), at);
      return { source, event_id, text: cutText(this.mask.sent.text(found.content), taintedMax) };
    });
  }

  hasRead(text: string): boolean {
    const messages = this.#run.branch?.messages ?? [];
    return messages.some(({ role, content }) => role !== "assistant" && content.includes(text));
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
