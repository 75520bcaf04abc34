import type { GovernedCall } from "../../../governance/controls/control.ts";
import type { Pipeline } from "../../../governance/controls/pipeline.ts";
import type { Wait } from "../../../governance/controls/verdicts.ts";
import { taskToolName } from "../../../manifests/sections/delegation.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { askApprovalOp, consumeGrantOp } from "../../../storage/tables/approvals.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import { checkArguments } from "../../tools/arguments.ts";
import { type BoundTools, bindTools } from "../../tools/source.ts";
import { type QueuedCall, type Tool, type ToolResult, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { leavePlan, tellMode } from "../context/run-mode.ts";
import { openOps } from "../event-log/waits.ts";
import { isOfRequest, withRequestTools } from "../spec/request-tools.ts";
import { writtenArguments } from "../spec/requested-calls.ts";
import type { BegunCall, PendingCall, RunSpec } from "../spec/run-spec.ts";
import { announceOps, hintAnnounced } from "./announced-waits.ts";
import { AnsweredCalls } from "./answered-calls.ts";
import { CallRecorder } from "./call-recorder.ts";
import { type Asking, CallWaits } from "./call-waits.ts";
import { governedCall } from "./governed-call.ts";
import { askedBy, type HowMade, type Made, misfit, unbound } from "./made-call.ts";
import { jobOf, pushJob } from "./queued-call.ts";
import {
  boundArguments,
  executeTool,
  familyOf,
  foreseenOf,
  foundOf,
  intentEntry,
  mayForesee,
  neverGivenUp,
} from "./tool-execution.ts";

/** True if a call starts a task of another agent and waits for it. */
function isForegroundTask({ agent }: RunSpec, { name, args }: ToolCall): boolean {
  if (name !== taskToolName || agent.manifest.spec.delegation === null) return false;
  return (args as { readonly background?: boolean }).background !== true;
}

/** Runs single tool calls: passes them through the controls, logs intent and result, and sends the frames. */
export class CallRunner {
  readonly #runContext: RunContext;
  readonly #pipeline: Pipeline;
  readonly #recorder: CallRecorder;
  readonly #answered: AnsweredCalls;
  /** Bound at the first call, then kept for the run. */
  #boundTools: BoundTools | null = null;
  /** Created when the first call waits. */
  #callWaits: CallWaits | null = null;

  constructor(runContext: RunContext) {
    this.#runContext = runContext;
    this.#pipeline = runContext.pipeline;
    this.#recorder = new CallRecorder(runContext, (name) => this.#bound.get(name)?.transport ?? "local");
    this.#answered = new AnsweredCalls(runContext, this.#recorder, {
      waits: () => this.#waits,
      tool: (name) => this.#bound.get(name),
      wait: async (call, wait, asking, entries, ops) => {
        await runContext.eventLog.append(entries, ops);
        return this.#wait(call, wait, asking);
      },
      make: (call, tool, governed, how) => this.#make(call, tool, governed, how),
    });
  }

  get #bound(): BoundTools {
    const { deps, spec } = this.#runContext;
    this.#boundTools ??= withRequestTools(bindTools(deps.toolSources, spec.agent), spec.agent);
    return this.#boundTools;
  }

  get #waits(): CallWaits {
    this.#callWaits ??= new CallWaits(this.#runContext);
    return this.#callWaits;
  }

  /** Returns a tool that the model was shown. */
  #offered(name: string): Tool | undefined {
    const { branch, offered } = this.#runContext;
    const isOffered = branch.offer === null || offered.tools.some((tool) => tool.name === name);
    return isOffered ? this.#bound.get(name) : undefined;
  }

  /** Closes calls that do not run, in the log and for clients. */
  leave(calls: readonly ToolCall[], why: string): Promise<ToolOutcome[]> {
    return this.#recorder.leave(calls, why);
  }

  /** Runs a call, or continues it after a resume. Null while the call waits. */
  async run({ call, argumentsText, wait, isHanded, begun, replied }: PendingCall): Promise<Made> {
    const runContext = this.#runContext;
    if (isHanded === true) return { handed: call };
    if (wait !== null) return this.#answered.resume(call, wait);
    if (begun !== undefined) return this.#again(call, begun);
    if (runContext.cancellation.cancelled) return this.#recorder.stopped(call);
    if (runContext.steering.interrupts) return this.#recorder.superseded(call);
    const tool = this.#offered(call.name);
    const checked = tool
      ? await checkArguments(tool, argumentsText ?? writtenArguments(call), runContext.deps.env)
      : unbound;
    if (!tool || !checked.ok) {
      await replied;
      this.#recorder.started(call);
      return this.#recorder.made(call, checked.ok ? unbound.refusal : checked.refusal, 0, null, []);
    }
    runContext.run.admitting++;
    const bound = await boundArguments(runContext, tool, call.id, checked.args);
    if ("text" in bound) {
      runContext.run.admitting--;
      await replied;
      this.#recorder.started(call);
      return this.#recorder.made(call, bound, 0, null, []);
    }
    const governed = governedCall(this.#runContext, call, tool, bound.args);
    const admission = await runContext.cancellation.orStopped(this.#pipeline.admit(governed));
    runContext.run.admitting--;
    if (admission === null) return this.#recorder.stopped(call);
    const { args, spoken } = admission;
    // From here the call has the arguments that the controls returned. The log has those of the model.
    const isReplaced = args !== checked.args;
    const made = isReplaced ? { ...call, args } : call;
    if (admission.kind === "pass")
      return this.#make(made, tool, governed, {
        ...{ spoken, isReplaced },
        grant: admission.grant ?? null,
        isEdited: admission.byPerson === true,
      });
    await replied;
    this.#recorder.started(made);
    if (admission.kind === "misfit") return this.#recorder.made(made, misfit(admission), 0, null, spoken);
    if (admission.kind === "deny") return this.#recorder.denied(made, admission.denial, spoken);
    return this.#wait(made, admission.wait, { by: askedBy(admission), spoken });
  }

  /**
   * Handles a call that was interrupted with its process. A `read` or `idempotent` call runs again with the same key. For a
   * `once` call the tool checks the file that it would change; without a result of that check a person decides (decision 91:
   * outcome unknown). The limits have counted the call, and its approvals were given.
   */
  async #again(call: ToolCall, { effect, args = call.args, foreseen, isEdited }: BegunCall): Promise<Made> {
    const { spec, cancellation, steering } = this.#runContext;
    const tool = this.#bound.get(call.name);
    const made = { ...call, args };
    if (tool === undefined || cancellation.cancelled) return this.#recorder.recalled(made, effect);
    const governed = governedCall(this.#runContext, made, tool, args);
    const isTask = isForegroundTask(spec, made);
    const joined = isTask ? await this.#rejoin(made, tool) : null;
    if (joined !== null) return joined.made;
    // A client call has never run here: the client sees it when the call waits, and this call did not wait.
    const mayHaveRun = effect === "once" && !isTask && !spec.agent.clientTools.has(call.name);
    const found = mayHaveRun ? await foundOf(this.#runContext, tool, made, foreseen) : "not_made";
    if (steering.interrupts && (found === null || found === "not_made"))
      return this.#recorder.recalled(made, effect, [], [], "superseded");
    if (found === null) return this.#askOutcome(made, governed, effect);
    if (found !== "not_made") return this.#recorder.came(made, tool, found, { latencyMs: 0 });
    const admission = await cancellation.orStopped(this.#pipeline.admit(governed, { after: "approvals" }));
    if (admission === null) return this.#recorder.recalled(made, effect);
    const { spoken } = admission;
    if (admission.kind === "deny") return this.#recorder.refusedAgain(made, effect, admission.denial, [], []);
    return this.#make(made, tool, governed, { spoken, grant: null, isReplaced: false, isEdited, begun: effect });
  }

  /** Rejoins the task that an interrupted call had started. Null if the call had started none. */
  async #rejoin(call: ToolCall, tool: Tool): Promise<{ readonly made: Made } | null> {
    const { agent } = call.args as { agent: string };
    const found = await familyOf(this.#runContext).rejoin(call.id, agent, neverGivenUp);
    if (found === null) return null;
    this.#recorder.started(call);
    if (!("wait" in found)) return { made: await this.#recorder.came(call, tool, found, { latencyMs: 0 }) };
    return { made: await this.#wait(call, found.wait, { by: null, spoken: [] }) };
  }

  /** Asks a person for the outcome of an interrupted call. The approval request is written in the same batch as the wait. */
  async #askOutcome(call: ToolCall, governed: GovernedCall, effect: string): Promise<Made> {
    const { request, wait } = await this.#runContext.askOutcome(governed);
    if ((await this.#waits.reserve()) !== null) return this.#recorder.recalled(call, effect);
    this.#recorder.started(call);
    const by = { control: "approvals", rule: request.rule_id, begun: effect } as const;
    return this.#suspendCall(call, wait, { by, spoken: [] }, [askApprovalOp(this.#runContext.store, request)]);
  }

  /** Runs a call that the controls have passed. */
  async #make(call: ToolCall, tool: Tool, governed: GovernedCall, how: HowMade): Promise<Made> {
    const { runContext, pipeline } = { runContext: this.#runContext, pipeline: this.#pipeline };
    const { spoken, grant, entries = [], ops = [], isEdited, begun } = how;
    const used = grant === null ? ops : [...ops, consumeGrantOp(runContext.store, grant)];
    // The log already has the intent of a call that runs again.
    const foreseen =
      begun === undefined && mayForesee(runContext, tool) ? await foreseenOf(runContext, tool, call) : null;
    const intent = begun === undefined ? [intentEntry(runContext, call, tool, how, foreseen)] : [];
    const written = [...entries, ...intent];
    const at = written.length === 0 ? runContext.eventLog.durableSeq : await runContext.eventLog.append(written, used);
    if (runContext.cancellation.cancelled)
      return begun === undefined ? this.#recorder.stopped(call) : this.#recorder.recalled(call, begun);
    if (isOfRequest(runContext.spec.agent, call.name)) return { handed: this.#recorder.handed(call) };
    this.#recorder.begun(call, isEdited, at);
    if (tool.effect !== "read") runContext.run.hasActed = true;
    const startedAt = runContext.deps.env.monotonic();
    const result = await executeTool(runContext, tool, call);
    if ("wait" in result) return this.#wait(call, result.wait, { by: null, spoken }, result.push);
    const latencyMs = runContext.deps.env.monotonic() - startedAt;
    const released = await pipeline.release({ ...governed, args: call.args }, result);
    const all = [...spoken, ...released.spoken];
    const mode = leavePlan(runContext, call, result);
    const kept = mode === null ? undefined : { permission_mode: mode };
    const made = await this.#recorder.made(call, result, latencyMs, released, all, [], [], kept);
    if (mode !== null) tellMode(runContext, mode);
    this.#recorder.failIfFatal(made, result);
    return made;
  }

  /** Opens a wait. On a thread the call stops here, and continues when the run resumes. Without a thread it waits in memory. */
  async #wait(call: ToolCall, wait: Wait, asking: Asking, queued?: QueuedCall): Promise<Made> {
    const runContext = this.#runContext;
    const full = await this.#waits.reserve();
    if (full !== null) {
      if (wait.kind === "task") runContext.run.tasks?.stop(wait.asked_as ?? "");
      return this.#recorder.made(call, toolError("rate_limited", full), 0, null, asking.spoken);
    }
    if (queued !== undefined) return this.#enqueue(call, wait, asking, queued);
    if (runContext.spec.thread_suffix !== null) return this.#suspendCall(call, wait, asking, []);
    const { row } = this.#waits.open(call, wait, asking, this.#recorder.isEdited(call));
    const { wait: ended, outcome, ops } = await this.#waits.here(wait, row);
    return outcome === null
      ? this.#answered.givenUp(call, ended, [], ops)
      : this.#answered.after(call, ended, outcome, [], ops);
  }

  /** Opens the wait of a queue call, then pushes its job. */
  async #enqueue(call: ToolCall, wait: Wait, asking: Asking, queued: QueuedCall): Promise<Made> {
    const runContext = this.#runContext;
    const { row: asked, entry } = this.#waits.open(call, wait, asking, this.#recorder.isEdited(call));
    const job = jobOf(runContext, queued, call, asked);
    const row = this.#bound.get(call.name)?.effect === "once" ? asked : { ...asked, push: job };
    if (runContext.spec.thread_suffix !== null) {
      await runContext.eventLog.append([entry], openOps(runContext.store, row));
      const refusal = await pushJob(runContext, job, row);
      if (refusal === null) return null;
      const { entries, ops } = this.#waits.withdraw(row);
      return this.#unsent(call, refusal, entries, ops);
    }
    const answer = this.#waits.here(wait, row);
    const refusal = await pushJob(runContext, job, row);
    if (refusal !== null) runContext.run.waits.drop(row.wait_id);
    const { wait: ended, outcome, ops } = await answer;
    if (refusal !== null) return this.#unsent(call, refusal, [], ops);
    return outcome === null
      ? this.#answered.givenUp(call, ended, [], ops)
      : this.#answered.after(call, ended, outcome, [], ops);
  }

  /** Opens a wait on the thread and leaves the call. `ops` are written before the wait. */
  async #suspendCall(call: ToolCall, wait: Wait, asking: Asking, ops: readonly WriteOp[]): Promise<null> {
    const runContext = this.#runContext;
    const { row, entry } = this.#waits.open(call, wait, asking, this.#recorder.isEdited(call));
    const opens = [...ops, ...openOps(runContext.store, row, wait.request)];
    // A request that `ops` make has no other wait.
    const made = wait.request?.id ?? (ops.length > 0 ? row.approval_id : null);
    const announced = announceOps(runContext, row, made);
    const at = await runContext.eventLog.append([entry], [...opens, ...announced]);
    hintAnnounced(runContext, announced);
    const { frame } = await this.#waits.opened(wait, row);
    // A parallel call may have ended since the append, under a later number. The ids of a stream never decrease.
    if (frame !== null)
      runContext.stream.frameToAll(frame.name, frame.data, Math.max(at, runContext.stream.announcedSeq));
    return null;
  }

  /** Closes a queue call whose job could not be pushed. */
  async #unsent(
    call: ToolCall,
    refusal: ToolResult,
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
  ): Promise<ToolOutcome> {
    const made = await this.#recorder.made(call, refusal, 0, null, [], entries, ops);
    this.#recorder.failIfFatal(made, refusal);
    return made;
  }
}
