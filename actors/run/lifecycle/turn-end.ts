import { memoryAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { AskedApproval, RunOutput, RunResult } from "../../../bus/frames/output.ts";
import type { AbortReason } from "../../../bus/protocol/run.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { RunEnding } from "../../../storage/tables/runs.ts";
import { answerTaskOp } from "../../../storage/tables/task-waits.ts";
import { keyExpiresAt } from "../../log/earlier-answer.ts";
import { interruptedEntry } from "../../log/entry.ts";
import type { AtEnd } from "../../log/messages.ts";
import { closeSubAgentCalls } from "../../log/open-calls.ts";
import { refusedTask, taskOutcome } from "../child-runs/parent-report.ts";
import type { RunContext } from "../context/run-context.ts";
import { captureOps } from "../context/run-memory.ts";
import { settleOps } from "../event-log/settlement.ts";
import type { RunOutcome } from "../spec/run-spec.ts";
import type { Finished } from "../steps/endings.ts";
import { leftWaits } from "../tool-calls/left-waits.ts";

/** Outcome label of a run in metrics and in its row. */
type Label = "ok" | "limited" | "aborted" | "interrupted" | "tool_failed" | "model_failed";

/** Facts about the end of a turn that its ending does not contain. */
interface TurnFacts {
  readonly output: RunOutput;
  /** The messages of the answer, in the client's format. */
  readonly messagesJson: string;
  readonly approvals: readonly AskedApproval[];
  /** True after the last attempt of a durable run's step has failed. */
  readonly isDead: boolean;
}

/** The end of one turn: the result of the run, its last batch, and the reports that follow the commit. */
export class TurnEnd {
  readonly #runContext: RunContext;
  readonly #ending: Finished;
  readonly #output: RunOutput;
  readonly #label: Label;
  readonly #status: "completed" | "failed" | "dead";
  readonly #isAborted: boolean;
  /** The `shutting_down` error if the server stops; null for any other end. */
  readonly #stopping: SvcError | null;
  /** Usage rows and call records of the last step. A turn that continues stores them with the answer. */
  readonly billed: readonly WriteOp[];
  #result: RunResult;
  /** True if a worker is to capture the facts of the turn. */
  #isCaptured = false;

  constructor(runContext: RunContext, ending: Finished, { output, messagesJson, approvals, isDead }: TurnFacts) {
    const { abortReason } = runContext;
    this.#runContext = runContext;
    this.#ending = ending;
    this.#output = output;
    this.#isAborted = abortReason !== null;
    // An Error captures its stack when constructed, so it is constructed only when needed.
    this.#stopping = abortReason === "shutdown" ? new SvcError("shutting_down") : null;
    this.#label = labelOf(ending, abortReason);
    this.#status = isDead ? "dead" : this.#isDone ? "completed" : "failed";
    this.#result = resultOf(runContext, ending, { messagesJson, approvals });
    this.billed = runContext.billing.ops();
  }

  get #isDone(): boolean {
    return this.#label === "ok" || this.#label === "limited";
  }

  /**
   * Writes the last batch. False if the thread has queued input for the run: nothing is written then, and the run answers that
   * input too.
   */
  async write(): Promise<boolean> {
    const { eventLog, durableRun, billing, run } = this.#runContext;
    const { entries, failure, final } = this.#ending;
    const error = this.#isDone ? null : [this.#label, ...(failure === null ? [] : [failure])].join(": ");
    const ofDurable = durableRun?.endOps({ status: this.#status, final, error }) ?? none;
    // Another call, or a stop, may have ended the run while questions were open.
    const left = eventLog.threadId === "" || !run.hasAsked ? null : await leftWaits(this.#runContext);
    const isWritten = await eventLog.end(
      entries,
      // Rows that other runs change too come last, always in the same order, so that batches cannot deadlock.
      () => [
        ...(left?.ops ?? none),
        ...parentOps(this.#runContext),
        ...this.billed,
        ...this.#captured(),
        ...this.#settled(),
        ...ofDurable,
        ...billing.endOps(),
      ],
      this.#row(),
      this.#mayGoOn ? atEnd(this.#runContext) : null,
    );
    if (isWritten) left?.stopTasks();
    return isWritten;
  }

  /** Reports the end, after its batch is durable. */
  report(): void {
    const { spec, eventLog, deps, metrics, stream, answerer, step } = this.#runContext;
    const { stop_reason, final, ok } = this.#ending;
    if (stop_reason === "max_turns") stream.frame("max_turns", { limit: answerer.spec.agent.recursion_limit });
    if (this.#isAborted) stream.frame("aborted", { thread_id: eventLog.threadId });
    // A compaction and a single call have no reply.
    if (["turn", "continuation"].includes(entryPointOf(spec.surface).work))
      this.#runContext.audit("final_response", ok ? "ok" : "error", {
        chars: final?.length ?? 0,
        stop_reason,
        model: step.route.id,
        latency_ms: deps.env.now() - spec.startedAt,
      });
    if (["max_tokens", "refusal", "max_turns"].includes(stop_reason))
      metrics.count("svc_run_stop_reason_total", { reason: stop_reason });
    metrics.count("svc_runs_total", { outcome: this.#label });
    if (this.#isCaptured) deps.bus.tell(memoryAddress(spec.principal.tenant_id), "wake", {});
    if (this.#stopping) this.#output.failed(this.#stopping);
    else this.#output.finished(this.#result, eventLog.durableSeq);
  }

  /** Returns the operation that lets a worker capture the facts of the turn, if its agent captures any. */
  #captured(): readonly WriteOp[] {
    const ops = this.#isDone ? captureOps(this.#runContext, this.#ending) : none;
    this.#isCaptured = ops.length > 0;
    return ops;
  }

  get status(): string {
    return this.#status;
  }

  /** True if queued input may start another turn of the run. */
  get #mayGoOn(): boolean {
    return this.#ending.isAnswer === true && this.#label !== "aborted" && this.#label !== "interrupted";
  }

  /** Settles the key of the turn. */
  #settled(): WriteOp[] {
    const { eventLog, spec } = this.#runContext;
    const count = this.#ending.entries.length;
    this.#result = { ...this.#result, leaf_id: eventLog.leafIdAfter(count) };
    if (spec.idempotency === null) return [];
    const outcome = this.#stopping
      ? { kind: "failed" as const, error: this.#stopping }
      : { kind: "finished" as const, result: this.#result };
    return settledOps(this.#runContext, outcome, eventLog.nextSeq + count, this.#output);
  }

  /** Returns the end of the run for its row. */
  #row(): RunEnding {
    const { spec, billing, run } = this.#runContext;
    const { stop_reason, failure, failedCall } = this.#ending;
    return {
      status: this.#status,
      stop_reason,
      error: this.#isDone ? null : this.#label,
      ...(failure !== null && { failure }),
      ...(failedCall && { failure_code: failedCall.code }),
      usage: billing.meter.total,
      ...(spec.workflow && run.taint.sources.length > 0 && { taint: run.taint.sources }),
      ...(spec.workflow && run.hasActed && { acted: true as const }),
      ...(billing.tree?.workflowBreach && { workflow_breach: billing.tree.workflowBreach }),
      ...(spec.parent && { task: taskOutcome(this.#result) }),
    };
  }
}

/** Closes the log after a refusal. False if the log rejects the batch. */
export async function writeFailure(runContext: RunContext, error: SvcError, output: RunOutput): Promise<boolean> {
  const { spec, store, eventLog, billing } = runContext;
  const usage = billing.meter.total;
  const billed = billing.ops();
  const settled = () => settledOps(runContext, { kind: "failed", error }, eventLog.nextSeq + 1, output);
  try {
    const left = await leftWaits(runContext);
    const task = spec.parent && { task: refusedTask(error.code, usage) };
    const ending = { status: "failed", stop_reason: null, error: error.code, usage, ...task } as const;
    const leaf = { leaf_seq: eventLog.durableSeq - 1 };
    const closing =
      eventLog.threadId === "" ? [] : await closeSubAgentCalls(store, spec.thread_key, leaf, runContext.deps.mask);
    const entries = [...closing, interruptedEntry(spec.run_id, error.code)];
    const ops = () => [...left.ops, ...parentOps(runContext), ...billed, ...settled(), ...billing.endOps()];
    const isWritten = await eventLog.end(entries, ops, ending, null);
    if (isWritten) left.stopTasks();
    return isWritten;
  } catch {
    return false;
  }
}

const none: readonly never[] = [];

/** Returns the result of the run. The last batch adds the id of its last event. */
function resultOf(
  runContext: RunContext,
  { final, stop_reason, handed, failure, failedTool, failedCall, withheld }: Finished,
  { messagesJson, approvals }: Pick<TurnFacts, "messagesJson" | "approvals">,
): RunResult {
  const { run, eventLog, billing, step } = runContext;
  return {
    final,
    messagesJson,
    stop_reason,
    handed: handed ?? none,
    usage: billing.meter.total,
    model: step.route.id,
    thread_id: eventLog.threadId,
    aborted: runContext.abortReason !== null,
    failure,
    ...(failedTool && { failedTool: true as const }),
    ...(withheld && { withheld }),
    ...(failedCall && { failedCall }),
    ...(run.hasActed && { hasActed: true as const }),
    ...(run.taint.sources.length > 0 && { taint: run.taint.sources }),
    ...(run.compaction !== null && { compaction: run.compaction }),
    ...(run.called !== null && { called: run.called }),
    approvals,
    leaf_id: "",
  };
}

/** Returns statements that settle the key of the turn. */
function settledOps(
  { store, spec, run, deps }: RunContext,
  outcome: RunOutcome,
  endSeq: number,
  output: RunOutput,
): WriteOp[] {
  const expiresAt = keyExpiresAt(deps.env.now(), deps.settings);
  return settleOps(store, spec, outcome, endSeq, { hasActed: run.hasActed, output, expiresAt });
}

/** Returns statements of the last batch that answer the parent run's wait for this task. */
function parentOps({ spec: { parent }, store }: RunContext): readonly WriteOp[] {
  return parent === null ? none : [answerTaskOp(store, parent)];
}

function labelOf(ending: Finished, abortReason: AbortReason | null): Label {
  if (abortReason !== null) return abortReason === "shutdown" ? "interrupted" : "aborted";
  if (ending.failure !== null) return ending.failedTool ? "tool_failed" : "model_failed";
  return ending.ok ? "ok" : "limited";
}

/** Returns the queued input that continues a run instead of its end: a follow-up always, a steer while a step is left. */
export function atEnd({ step: { number: step }, spec }: RunContext): AtEnd {
  return step < spec.agent.recursion_limit ? "end" : "end_of_steps";
}
