import type { GovernedCall } from "../../../governance/controls/control.ts";
import { denialOf } from "../../../governance/controls/denial.ts";
import type { ControlName } from "../../../governance/controls/order.ts";
import type { Spoken, Wait } from "../../../governance/controls/verdicts.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import { isSuperseded, type WaitRow } from "../../../storage/tables/waits.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import type { Tool, WaitOutcome } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { callKey } from "../context/run-pipeline.ts";
import { endedEntry } from "../event-log/waits.ts";
import { claimGrant, decisionOf } from "./call-approval.ts";
import type { CallRecorder } from "./call-recorder.ts";
import type { Asking, CallWaits } from "./call-waits.ts";
import { governedCall } from "./governed-call.ts";
import { askedBy, type HowMade, type Made, misfit, unavailable } from "./made-call.ts";
import { familyOf, resumeTool } from "./tool-execution.ts";

/** Functions of the call runner that answered calls need. */
interface CallParts {
  waits(): CallWaits;
  /** Returns the tool of this name; undefined if the agent does not have it. */
  tool(name: string): Tool | undefined;
  /** Opens another wait, after the entries and operations of the one before. */
  wait(
    call: ToolCall,
    wait: Wait,
    asking: Asking,
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
  ): Promise<Made>;
  /** Makes a call that the controls have passed. */
  make(call: ToolCall, tool: Tool, governed: GovernedCall, how: HowMade): Promise<Made>;
}

/** Continues calls after a wait: the question was the tool's own, or a control asked whether the call may run. */
export class AnsweredCalls {
  readonly #runContext: RunContext;
  readonly #recorder: CallRecorder;
  readonly #parts: CallParts;

  constructor(runContext: RunContext, recorder: CallRecorder, parts: CallParts) {
    this.#runContext = runContext;
    this.#recorder = recorder;
    this.#parts = parts;
  }

  /** Continues a call of a suspended run whose wait has ended. Null while the wait is open. */
  async resume(call: ToolCall, asked: WaitRow): Promise<Made> {
    const wait = asked.kind === "task" && asked.state === "open" ? await this.#parts.waits().back(asked) : asked;
    const { outcome, ops } = this.#parts.waits().closing(wait);
    if (this.#runContext.cancellation.cancelled) return this.givenUp(call, wait, [endedEntry(wait, "aborted")], ops);
    if (isSuperseded(wait)) {
      const { begun } = wait.call;
      const entries = [endedEntry(wait, "superseded")];
      if (begun === undefined) return this.#recorder.superseded(call, entries, ops);
      return this.#recorder.recalled(call, begun, entries, ops, "superseded");
    }
    if (outcome === null) return null;
    return this.after({ ...call, args: wait.call.args }, wait, outcome, [endedEntry(wait, outcome.kind)], ops);
  }

  /** Continues a call with the outcome of its wait: the tool's own question, or the decision that a control asked for. */
  async after(
    call: ToolCall,
    wait: WaitRow,
    outcome: WaitOutcome,
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
  ): Promise<Made> {
    const tool = this.#parts.tool(call.name);
    const { control, rule = "", begun } = wait.call;
    if (tool === undefined && begun !== undefined) return this.#recorder.recalled(call, begun, entries, ops);
    if (tool === undefined) {
      const problems = this.#runContext.spec.agent.found?.problems ?? [];
      return this.#recorder.made(call, unavailable(problems), 0, null, [], entries, ops);
    }
    const before = (wait.call.spoken ?? []) as readonly Spoken[];
    if (control === null)
      return this.#answered(call, tool, { outcome, since: wait.opened_at, spoken: before }, entries, ops);
    const { cancellation, store, spec } = this.#runContext;
    const by = { control: control as ControlName, rule };
    const spoken: readonly Spoken[] = before.length > 0 ? before : [{ ...by, verdict: "wait", ms: 0 }];
    const refuse = (detail: string) =>
      this.#recorder.denied(
        call,
        denialOf(by.control, { rule, detail, layer: by.control === "command" ? "approvals" : by.control }),
        spoken,
        entries,
        ops,
      );
    const { decision, note, edited_args, result } = decisionOf(outcome);
    if (begun !== undefined && result !== undefined)
      return this.#recorder.came(call, tool, { text: result }, { latencyMs: 0, spoken, entries, ops });
    if (begun !== undefined && decision === "denied") return this.#recorder.recalled(call, begun, entries, ops, note);
    if (decision === "denied") return refuse(note || "denied");
    // The request was decided before this call joined it, by the principal that may not decide this call.
    if (outcome.kind === "answered" && outcome.by === wait.may_answer.not_principal)
      return refuse("for another principal to decide");
    const grant = wait.approval_id;
    if (grant !== null && !(await claimGrant(store, grant, callKey(spec.keyedAs, call.id))))
      return refuse("used by another call");
    const args = edited_args ?? call.args;
    const governed = governedCall(this.#runContext, call, tool, args);
    const resumed = { after: by.control, edited: edited_args !== null };
    const admission = await cancellation.orStopped(this.#runContext.pipeline.admit(governed, resumed));
    if (admission === null)
      return begun === undefined
        ? this.#recorder.stopped(call, entries, ops)
        : this.#recorder.recalled(call, begun, entries, ops);
    const made = { ...call, args: admission.args };
    const all = [...spoken, ...admission.spoken];
    if (admission.kind === "misfit") return this.#recorder.made(made, misfit(admission), 0, null, all, entries, ops);
    if (admission.kind === "deny" && begun !== undefined)
      return this.#recorder.refusedAgain(made, begun, admission.denial, entries, ops);
    if (admission.kind === "deny") return this.#recorder.denied(made, admission.denial, all, entries, ops);
    // A later control asks for another approval.
    if (admission.kind === "wait" && begun === undefined)
      return this.#parts.wait(made, admission.wait, { by: askedBy(admission), spoken: all }, entries, ops);
    if (admission.kind === "wait")
      throw new Error(`the control ${admission.after} makes a call wait that ${by.control} has released from a wait`);
    const isReplaced = JSON.stringify(made.args) !== JSON.stringify(this.#logged(call.id));
    return this.#parts.make(made, tool, governed, {
      ...{ spoken: all, grant, entries, ops, isReplaced, begun },
      isEdited: edited_args !== null || wait.call.edited === true,
    });
  }

  /** Returns the logged arguments of a call. */
  #logged(callId: string): unknown {
    const { messages } = this.#runContext.branch;
    return messages.findLast(({ tool_calls }) => tool_calls !== null)?.tool_calls?.find(({ id }) => id === callId)
      ?.args;
  }

  /** Lets the tool make its result from the answer. `entries` and `ops` are written with the result. */
  async #answered(
    call: ToolCall,
    tool: Tool,
    {
      outcome,
      since,
      spoken,
    }: { readonly outcome: WaitOutcome; readonly since: number; readonly spoken: readonly Spoken[] },
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
  ): Promise<ToolOutcome> {
    const runContext = this.#runContext;
    const result = await resumeTool(runContext, tool, call, outcome);
    // Another process may have opened the wait, so only the wall clock is comparable.
    const latencyMs = Math.max(0, runContext.deps.env.now() - since);
    const made = await this.#recorder.came(call, tool, result, { latencyMs, spoken, entries, ops });
    this.#recorder.failIfFatal(made, result);
    return made;
  }

  /** Closes a waiting call because the run ends. A task, a client or a queue consumer may already have done the work. */
  givenUp(call: ToolCall, wait: WaitRow, entries: readonly LogEntry[], ops: readonly WriteOp[]): Promise<ToolOutcome> {
    const { begun } = wait.call;
    if (begun !== undefined) return this.#recorder.recalled(call, begun, entries, ops);
    if (wait.kind === "task") familyOf(this.#runContext).stop(wait.asked_as ?? "");
    else if (wait.kind !== "client_tool" && wait.kind !== "queue") return this.#recorder.stopped(call, entries, ops);
    return this.#recorder.recalled(call, this.#parts.tool(call.name)?.effect ?? "once", entries, ops);
  }
}
