import { SvcError } from "../../bus/errors.ts";
import { argumentsProblem } from "../../governance/arguments-problem.ts";
import type { GovernedCall } from "../../governance/controls/control.ts";
import { type Denial, denialOf, denyText } from "../../governance/controls/denial.ts";
import type { ControlName } from "../../governance/controls/order.ts";
import type { Admission, Pipeline, Released } from "../../governance/controls/pipeline.ts";
import type { GovernedResult, Spoken, Wait } from "../../governance/controls/verdicts.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { approvalById, claimGrantOp, consumeGrantOp, type Decision, leaveOps } from "../../storage/tables/approvals.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import {
  closeWaitOp,
  deleteWaitOp,
  type NewWait,
  noThread,
  type WaitingCall,
  type WaitRow,
  waitById,
  waitsOfRunMax,
} from "../../storage/tables/waits.ts";
import type { JournalEntry } from "../log/entry.ts";
import { resultText, type ToolOutcome, toolOutcome, unknownOutcome, unrunTool } from "../log/tool-outcome.ts";
import type { RequestedCall } from "../models/provider.ts";
import { soundJson } from "../models/sound-text.ts";
import { checkArguments, loggedArguments } from "../tools/arguments.ts";
import { type BoundTools, bindTools } from "../tools/source.ts";
import {
  type Tool,
  type ToolContext,
  type ToolResult,
  type ToolWait,
  toolError,
  type WaitOutcome,
} from "../tools/tool.ts";
import type { PendingCall } from "./plan.ts";
import { callKey, type RunScope } from "./scope.ts";
import { keepImages } from "./tool-images.ts";
import { endedEntry, openedWait, openOps, outcomeOf } from "./waits.ts";

const neverGivenUp = new AbortController().signal;

/** Ids of calls are the model's own words and end up in rows and frames. */
const callIdMax = 256;
/** Providers refuse a conversation in which a call has a name of any other form. */
const callNamePattern = /^[A-Za-z0-9_-]{1,64}$/;

/** Runs the tool calls of one run: through governance, journaled before and after, with their frames. */
export class ToolRunner {
  readonly #scope: RunScope;
  readonly #pipeline: Pipeline;
  /** Asked for when the first call comes, and kept for the run. */
  #boundTools: BoundTools | null = null;
  readonly #usedIds = new Set<string>();
  /** Calls that clients know of. */
  readonly #startedIds = new Set<string>();
  #openWaits = 0;

  constructor(scope: RunScope) {
    this.#scope = scope;
    this.#pipeline = scope.pipeline;
    for (const id of scope.plan.resumed?.callIds ?? []) this.#usedIds.add(id);
    for (const { call, wait } of scope.plan.resumed?.calls ?? []) if (wait !== null) this.#startedIds.add(call.id);
  }

  get #bound(): BoundTools {
    this.#boundTools ??= bindTools(this.#scope.deps.toolSources, this.#scope.plan.agent);
    return this.#boundTools;
  }

  /** The calls as the log keeps them: each with an id of its own, arguments parsed where they can be. */
  identify(requested: readonly RequestedCall[]): ToolCall[] {
    const args = loggedArguments(requested.map((call) => soundJson(call.arguments)));
    return requested.map((call, at) => {
      let id = call.id;
      if (id === "" || id.length > callIdMax || this.#usedIds.has(id)) id = `call_${this.#scope.deps.env.id()}`;
      this.#usedIds.add(id);
      return { id, name: presentableName(call.name), args: args[at] };
    });
  }

  /**
   * Results in the order of the calls, as far as there are any: `waits` says that a call waits for somebody outside. Of parallel
   * calls the others come to their end first; of others none begins behind it. Refuses only when the journal does.
   */
  async runAll(calls: readonly PendingCall[]): Promise<{ outcomes: ToolOutcome[]; waits: boolean }> {
    const found: (ToolOutcome | null)[] = [];
    if (this.#scope.plan.agent.parallelTools) {
      found.push(...(await Promise.all(calls.map((pending) => this.#run(pending)))));
    } else {
      for (const pending of calls) {
        const outcome = await this.#run(pending);
        found.push(outcome);
        if (outcome === null) break;
      }
    }
    const outcomes = found.filter((outcome) => outcome !== null);
    this.#scope.endedOnDenial = outcomes.at(-1)?.status === "denied";
    return { outcomes, waits: outcomes.length < found.length };
  }

  /** Null while the call waits. */
  async #run({ call, argumentsText, wait }: PendingCall): Promise<ToolOutcome | null> {
    const scope = this.#scope;
    if (wait !== null) return this.#goOn(call, wait);
    if (scope.cancellation.cancelled) return this.#stopped(call);
    const tool = this.#bound.get(call.name);
    const checked = tool ? checkArguments(tool, argumentsText ?? writtenArguments(call)) : unbound;
    if (!tool || !checked.ok) {
      this.#started(call);
      return this.#record(call, checked.ok ? unbound.refusal : checked.refusal, 0, null, []);
    }
    const governed = this.#governed(call, tool, checked.args);
    const admission = await scope.cancellation.orStopped(this.#pipeline.admit(governed));
    if (admission === null) return this.#stopped(call);
    const { args, spoken } = admission;
    // From here on the call is what the controls have made of it; what the model wrote is in the log.
    const isReplaced = args !== checked.args;
    const made = isReplaced ? { ...call, args } : call;
    if (admission.kind === "pass")
      return this.#make(made, tool, governed, { spoken, grant: admission.grant ?? null, isReplaced });
    this.#started(made);
    if (admission.kind === "misfit") return this.#record(made, misfit(admission), 0, null, spoken);
    if (admission.kind === "deny") return this.#deny(made, admission.denial, spoken);
    return this.#wait(made, admission.wait, { control: admission.after, rule: admission.rule });
  }

  /** Makes a call that may be made. */
  async #make(call: ToolCall, tool: Tool, governed: GovernedCall, how: HowMade): Promise<ToolOutcome | null> {
    const { scope, pipeline } = { scope: this.#scope, pipeline: this.#pipeline };
    const { spoken, grant, entries = [], ops = [], isReplaced } = how;
    const used = grant === null ? ops : [...ops, consumeGrantOp(scope.store, grant)];
    const at = await scope.journal.append([...entries, this.#intent(call, tool, isReplaced)], used);
    if (scope.cancellation.cancelled) return this.#stopped(call);
    this.#started(call, at);
    const startedAt = scope.deps.env.monotonic();
    const result = await this.#execute(tool, call.args);
    if ("wait" in result) return this.#wait(call, result.wait, null);
    const latencyMs = scope.deps.env.monotonic() - startedAt;
    const released = await pipeline.release({ ...governed, args: call.args }, result);
    return this.#record(call, result, latencyMs, released, [...spoken, ...released.spoken]);
  }

  /** Puts a question to the outside. On a thread the call is left here, and goes on when the run is taken up. */
  async #wait(call: ToolCall, wait: Wait, by: AskedBy | null): Promise<ToolOutcome | null> {
    const scope = this.#scope;
    const { plan, deps, journal, store, budget } = scope;
    if (this.#openWaits >= waitsOfRunMax)
      return this.#record(call, toolError("rate_limited", "too many questions are open"), 0, null, []);
    this.#openWaits++;
    if (wait.approval_id !== undefined) scope.approvals = (scope.approvals ?? new Set()).add(wait.approval_id);
    const asking: WaitingCall = {
      tool_call_id: call.id,
      tool: call.name,
      args: call.args,
      control: by?.control ?? null,
      ...(by && { rule: by.rule }),
    };
    const { row, entry } = openedWait(wait, asking, {
      wait_id: deps.env.id(),
      thread_key: plan.thread_suffix === null ? noThread : plan.thread_key,
      suffix: plan.thread_suffix ?? "",
      run_id: plan.run_id,
      opened_at: deps.env.now(),
      latest: budget.deadline,
    });
    if (plan.thread_suffix === null) return this.#waitHere(call, wait, row);
    await journal.append([entry], openOps(store, row));
    if (wait.frame) scope.frameToAll(wait.frame.name, wait.frame.data);
    return null;
  }

  /** Waits in memory. Only what somebody may decide who knows nothing of the run is a row. */
  async #waitHere(call: ToolCall, wait: Wait, row: NewWait): Promise<ToolOutcome | null> {
    const scope = this.#scope;
    const { store, waits, cancellation, budget } = scope;
    const isStored = row.approval_id !== null;
    if (isStored) await store.write(openOps(store, row));
    const asked = waits.ask(row.wait_id, wait, budget.deadline, (stop) => cancellation.onCancel(stop));
    if (wait.frame) scope.frame(wait.frame.name, wait.frame.data);
    if (isStored) await waits.look(store);
    let outcome = await asked;
    // It may have been decided in the moment in which its time was over.
    if (isStored && outcome?.kind === "expired") {
      const stored = await waitById(store, row.wait_id);
      outcome = (stored && outcomeOf(stored)) ?? outcome;
    }
    this.#openWaits--;
    const ended: WaitRow = { ...row, state: "open", answer: null };
    const ops = isStored ? this.#endOps(ended, outcome, deleteWaitOp(store, row.wait_id)) : [];
    return outcome === null ? this.#stopped(call, [], ops) : this.#after(call, ended, outcome, [], ops);
  }

  /** A call whose question was put aside goes on, if the question is answered or over. */
  async #goOn(call: ToolCall, wait: WaitRow): Promise<ToolOutcome | null> {
    const { cancellation, store } = this.#scope;
    const outcome = cancellation.cancelled ? null : outcomeOf(wait);
    this.#openWaits++;
    const closing = this.#endOps(wait, outcome, closeWaitOp(store, wait.wait_id));
    if (cancellation.cancelled) return this.#stopped(call, [endedEntry(wait, "aborted")], closing);
    if (outcome === null) return null;
    this.#openWaits--;
    return this.#after({ ...call, args: wait.call.args }, wait, outcome, [endedEntry(wait, outcome.kind)], closing);
  }

  /** Ends a wait; with it the request that it was for, where nobody has decided and nobody else waits. */
  #endOps({ approval_id }: WaitRow, outcome: WaitOutcome | null, close: WriteOp): WriteOp[] {
    if (approval_id === null || outcome?.kind === "answered") return [close];
    return leaveOps(this.#scope.store, approval_id, outcome === null ? "aborted" : "timeout", close);
  }

  /** Goes on behind a question: the tool's own, or a control's whether the call may be made. */
  async #after(
    call: ToolCall,
    wait: WaitRow,
    outcome: WaitOutcome,
    entries: readonly JournalEntry[],
    ops: readonly WriteOp[],
  ): Promise<ToolOutcome | null> {
    const tool = this.#bound.get(call.name);
    const { control, rule = "" } = wait.call;
    if (tool === undefined) return this.#record(call, unbound.refusal, 0, null, [], entries, ops);
    if (control === null) return this.#answered(call, tool, outcome, entries, ops);
    const { cancellation, store, plan } = this.#scope;
    const by = { control: control as ControlName, rule };
    const spoken: Spoken[] = [{ ...by, verdict: "wait", ms: 0 }];
    const refuse = (detail: string) => this.#deny(call, denialOf(by.control, { rule, detail }), spoken, entries, ops);
    const { decision, note, edited_args } = decided(outcome);
    if (decision === "denied") return refuse(note || "denied");
    // It was decided before this call has joined those that wait for it.
    if (outcome.kind === "answered" && outcome.by === wait.may_answer.not_principal)
      return refuse("for another principal to decide");
    const grant = wait.approval_id;
    if (grant !== null && !(await claimGrant(store, grant, callKey(plan.run_id, call.id))))
      return refuse("used by another call");
    const args = edited_args ?? call.args;
    const governed = this.#governed(call, tool, args);
    const resumed = { after: by.control, edited: edited_args !== null };
    const admission = await cancellation.orStopped(this.#pipeline.admit(governed, resumed));
    if (admission === null) return this.#stopped(call, entries, ops);
    const made = { ...call, args: admission.args };
    const all = [...spoken, ...admission.spoken];
    if (admission.kind === "misfit") return this.#record(made, misfit(admission), 0, null, all, entries, ops);
    if (admission.kind === "deny") return this.#deny(made, admission.denial, all, entries, ops);
    if (admission.kind === "wait") throw new Error(`${admission.after} waits behind ${by.control}`);
    const isReplaced = JSON.stringify(made.args) !== JSON.stringify(this.#logged(call.id));
    return this.#make(made, tool, governed, { spoken: all, grant, entries, ops, isReplaced });
  }

  /** The arguments of a call as the log has them. */
  #logged(callId: string): unknown {
    const { branch } = this.#scope.plan;
    return branch.findLast(({ tool_calls }) => tool_calls !== null)?.tool_calls?.find(({ id }) => id === callId)?.args;
  }

  /** The tool makes its result of the answer. `entries` and `ops` are written with it. */
  async #answered(
    call: ToolCall,
    tool: Tool,
    outcome: WaitOutcome,
    entries: readonly JournalEntry[],
    ops: readonly WriteOp[],
  ): Promise<ToolOutcome> {
    const scope = this.#scope;
    const startedAt = scope.deps.env.monotonic();
    const { resume } = tool;
    const result = await this.#timed(tool, (context) =>
      resume === undefined ? plainResult(outcome) : resume(call.args as never, outcome, context),
    );
    const latencyMs = scope.deps.env.monotonic() - startedAt;
    const released = await this.#pipeline.release(this.#governed(call, tool, call.args), result);
    return this.#record(call, result, latencyMs, released, released.spoken, entries, ops);
  }

  #governed(call: ToolCall, tool: Tool, args: unknown): GovernedCall {
    const { plan, deps } = this.#scope;
    return {
      tool: call.name,
      tool_call_id: call.id,
      asked: call.args,
      args,
      misfit: (other) => argumentsProblem(tool, other),
      preview: async () => (tool.preview ? tool.preview(args as never, this.#context(neverGivenUp)) : null),
      agent: plan.agent,
      principal: plan.principal,
      now: deps.env.now(),
    };
  }

  /** Audits, counts and closes a call that was refused. */
  #deny(
    call: ToolCall,
    denial: Denial,
    spoken: readonly Spoken[],
    entries: readonly JournalEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome> {
    const scope = this.#scope;
    scope.denied(denial, { tool: call.name, tool_call_id: call.id });
    scope.metrics.count("svc_tool_calls_total", { transport: "local", status: "denied", error_code: "" });
    const outcome = toolOutcome(call, denyText(denial, call.name), "denied", scope.plan.origin, spoken);
    return this.#close(outcome, entries, ops);
  }

  /** Closes calls that are not run, with the frames of calls that were: clients see every call begin and end. */
  async leave(
    calls: readonly ToolCall[],
    why: string,
    entries: readonly JournalEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome[]> {
    const outcomes = calls.map((call) => unrunTool(call, why, this.#scope.plan.origin));
    const at = await this.#scope.journal.append([...entries, ...outcomes.map((outcome) => outcome.entry)], ops);
    for (const outcome of outcomes) {
      this.#started(outcome.call, at);
      this.#ended(outcome, at);
    }
    return outcomes;
  }

  async #stopped(call: ToolCall, entries?: readonly JournalEntry[], ops?: readonly WriteOp[]): Promise<ToolOutcome> {
    this.#countInterrupted();
    const [outcome] = await this.leave([call], "the run was stopped", entries, ops);
    return outcome as ToolOutcome;
  }

  /** `at` is the sequence number behind the call's own events: those of calls beside it are told with their own frames. */
  #started(call: ToolCall, at?: number): void {
    if (this.#startedIds.has(call.id)) return;
    this.#startedIds.add(call.id);
    this.#scope.frame("tool_start", { name: call.name, input: call.args, id: call.id }, at);
    this.#scope.frame("tool_execution_update", { name: call.name, id: call.id, status: "running" }, at);
  }

  /**
   * Audits and counts a call that was made, or could not be made as asked, and closes it. What it did is on record whatever may
   * be shown of it; `released` is null where the server's own words are the result.
   */
  #record(
    call: ToolCall,
    result: ToolResult,
    latencyMs: number,
    released: Released<GovernedResult> | null,
    spoken: readonly Spoken[],
    entries: readonly JournalEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome> {
    const scope = this.#scope;
    const status = result.error === undefined ? "ok" : "error";
    scope.audit("tool_call", status, {
      tool: call.name,
      tool_call_id: call.id,
      args: call.args,
      latency_ms: Math.round(latencyMs * 100) / 100,
      ...(result.error === undefined ? {} : { error_code: result.error }),
    });
    scope.metrics.count("svc_tool_calls_total", { transport: "local", status, error_code: result.error ?? "" });
    if (result.error === "interrupted") this.#countInterrupted();
    scope.metrics.observe("svc_tool_call_seconds", { transport: "local" }, latencyMs / 1000);
    const { shown, denial } = released ?? { shown: result, denial: null };
    if (denial !== null) scope.denied(denial, { tool: call.name, tool_call_id: call.id });
    const shownStatus = shown.error === undefined ? "ok" : "error";
    const told = denial === null ? shownStatus : "denied";
    const text = resultText(shown);
    const { origin } = scope.plan;
    if (!shown.images?.length) return this.#close(toolOutcome(call, text, told, origin, spoken), entries, ops);
    return keepImages(scope, shown.images).then(({ attachments, ops: keeping, note }) => {
      const words = [text, note].filter((line) => line !== "").join("\n");
      return this.#close(toolOutcome(call, words, told, origin, spoken, attachments), entries, [...ops, ...keeping]);
    });
  }

  #countInterrupted(): void {
    const { metrics } = this.#scope;
    metrics.count("svc_interrupted_tool_calls_total", {});
  }

  /** The result becomes durable, and then the client is told. */
  async #close(
    outcome: ToolOutcome,
    entries: readonly JournalEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome> {
    this.#ended(outcome, await this.#scope.journal.append([...entries, outcome.entry], ops));
    return outcome;
  }

  #ended({ call, text, attachments }: ToolOutcome, at: number): void {
    const images = attachments.map(({ url, media_type }) => ({ url, media_type }));
    const end = { name: call.name, output: text, id: call.id, ...(images.length > 0 && { attachments: images }) };
    this.#scope.frame("tool_end", end, at);
    this.#scope.frame("tool_execution_update", { name: call.name, id: call.id, status: "complete" }, at);
  }

  /**
   * Written before the call runs: what is found without a result after a crash may have run (decision 15). It keeps arguments that
   * are not the model's own, which stand in no other row.
   */
  #intent(call: ToolCall, tool: Tool, isReplaced: boolean): JournalEntry {
    const { origin } = this.#scope.plan;
    const metadata: Record<string, unknown> = { key: callKey(this.#scope.plan.run_id, call.id), effect: tool.effect };
    if (isReplaced) metadata.args = call.args;
    if (origin !== null) metadata.origin_request = origin;
    return { kind: "tool_call", role: null, content: "", extra: { name: call.name, tool_call_id: call.id, metadata } };
  }

  /** Runs the tool until it answers, its time is over, or the run, which goes on yet, is stopped. A throw is a defect of the tool, and data here. */
  #execute(tool: Tool, args: unknown): Promise<ToolResult | ToolWait> {
    return this.#timed(tool, (context) => tool.execute(args as never, context));
  }

  #context(signal: AbortSignal): ToolContext {
    const { deps, plan } = this.#scope;
    return {
      env: deps.env,
      tenantId: plan.principal.tenant_id,
      threadSuffix: plan.thread_suffix,
      workspaceScope: plan.agent.workspaceScope,
      workspace: { root: deps.settings.workspaceRoot, deploymentTenants: deps.settings.workspaceDeploymentTenants },
      signal,
      emit: (name, data) => this.#scope.frameToAll(name, data),
    };
  }

  #timed<R>(tool: Tool, work: (context: ToolContext) => R | Promise<R>): Promise<R | ToolResult> {
    const { deps, plan, cancellation } = this.#scope;
    const controller = new AbortController();
    return new Promise((resolve) => {
      const finish = (result: R | ToolResult): void => {
        timer.cancel();
        stopListening();
        resolve(result);
      };
      const timer = deps.env.timer(tool.timeoutMs, () => {
        controller.abort();
        finish({ error: "timeout", text: `no result within ${tool.timeoutMs} ms` });
      });
      const stopListening = cancellation.onCancel(() => {
        controller.abort();
        finish({ error: "interrupted", text: unknownOutcome(tool.effect) });
      });
      const failed = (error: unknown): void => {
        deps.log.error({ err: error, tool: tool.name, run_id: plan.run_id }, "tool threw");
        finish({ error: "internal", text: "the tool failed" });
      };
      try {
        const result = work(this.#context(controller.signal));
        if (result instanceof Promise) result.then(finish, failed);
        else finish(result);
      } catch (error) {
        failed(error);
      }
    });
  }
}

/** How a call is made. */
interface HowMade {
  readonly spoken: readonly Spoken[];
  /** The approval that it needs. */
  readonly grant: string | null;
  /** Whether its arguments are not those in the log. */
  readonly isReplaced: boolean;
  /** Written with its intent. */
  readonly entries?: readonly JournalEntry[];
  readonly ops?: readonly WriteOp[];
}

/** The control that asks, and by which of its rules. */
interface AskedBy {
  readonly control: ControlName;
  readonly rule: string;
}

/** What was said to the question whether a call may be made. */
function decided(outcome: WaitOutcome): Decision {
  if (outcome.kind === "expired") return { decision: "denied", note: "timeout", edited_args: null };
  return outcome.value as Decision;
}

/** Whether a call may use a grant: one for a single call is its own, or nobody's yet. */
async function claimGrant(store: TenantStore, id: string, call: string): Promise<boolean> {
  const row = await approvalById(store, id);
  if (row === undefined || row.one_shot === 0) return row !== undefined;
  try {
    await store.write([claimGrantOp(store, id, call)]);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}

/** What the model is told when a control has put arguments into its call that the tool would not take. */
function misfit({ by, problem }: Extract<Admission, { kind: "misfit" }>): ToolResult {
  return toolError("invalid_arguments", `changed by ${by}: ${problem}`);
}

/** The answer itself, of a tool that makes nothing else of it. */
function plainResult(outcome: WaitOutcome): ToolResult {
  if (outcome.kind === "expired") return toolError("timeout", "nobody has answered in time");
  return { text: typeof outcome.value === "string" ? outcome.value : JSON.stringify(outcome.value) };
}

/** The arguments of a call from the log, as the model may have written them. */
function writtenArguments({ args }: ToolCall): string {
  return typeof args === "string" ? args : JSON.stringify(args);
}

/** A model may ask for a tool that exists and is not this agent's; it is told no more than for one that does not exist. */
const unbound = { ok: false, refusal: toolError("permission_denied", "no tool of this name is bound") } as const;

/** A name that the model made up would be sent back with every later turn of the thread. */
function presentableName(name: string): string {
  return callNamePattern.test(name) ? name : name.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64) || "unnamed";
}
