import { tellNews } from "../../../bus/protocol/news.ts";
import { type Denial, denyText } from "../../../governance/controls/denial.ts";
import type { Released } from "../../../governance/controls/pipeline.ts";
import type { GovernedResult, Spoken } from "../../../governance/controls/verdicts.ts";
import { attributeNames, spanNames } from "../../../governance/tracing/conventions.ts";
import { contentText } from "../../../governance/tracing/tracer.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { KeptByThread } from "../../log/messages.ts";
import {
  editedText,
  resultText,
  type ToolOutcome,
  toolOutcome,
  unknownOutcome,
  unrunTool,
} from "../../log/tool-outcome.ts";
import type { Tool, ToolResult, ToolTransport } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";
import { governedCall } from "./governed-call.ts";
import type { Came } from "./made-call.ts";
import { keepImages } from "./tool-images.ts";

/**
 * Logs, audits and counts the calls of one run, and sends their frames. Clients see each call start once and end once; the end
 * frame follows the durable result. `entries`, `ops` and `kept` are written with the result.
 */
export class CallRecorder {
  readonly #runContext: RunContext;
  readonly #transportOf: (tool: string) => ToolTransport;
  /** Ids of calls whose start clients have seen. */
  readonly #startedIds = new Set<string>();
  /** Ids of calls whose arguments a person has edited. */
  readonly #editedIds = new Set<string>();

  constructor(runContext: RunContext, transportOf: (tool: string) => ToolTransport) {
    this.#runContext = runContext;
    this.#transportOf = transportOf;
    for (const { call, wait, begun } of runContext.spec.resumed?.calls ?? []) {
      if (wait !== null) this.#startedIds.add(call.id);
      if (wait?.call.edited || begun?.isEdited) this.#editedIds.add(call.id);
    }
  }

  /** Announces the start of a call once. `at` is the sequence number after the call's own events; parallel calls announce theirs. */
  started(call: ToolCall, at = this.#runContext.stream.announcedSeq): void {
    if (!this.#startedIds.has(call.id)) this.#tellStart(call, at);
  }

  /** Announces a call that runs now. A call is announced again if a person has edited its arguments since. */
  begun(call: ToolCall, isEdited: boolean, at: number): void {
    if (isEdited) this.#editedIds.add(call.id);
    if (isEdited || !this.#startedIds.has(call.id)) this.#tellStart(call, at);
  }

  /** True if a person has edited the arguments of a call. */
  isEdited({ id }: ToolCall): boolean {
    return this.#editedIds.has(id);
  }

  /** Returns the arguments of a call as clients and the audit get them. */
  #shown({ args }: ToolCall): unknown {
    return this.#runContext.pipeline.shownArgs(args);
  }

  #tellStart(call: ToolCall, at: number): void {
    this.#startedIds.add(call.id);
    const input = this.#shown(call);
    this.#runContext.stream.frame("tool_start", { name: call.name, input, id: call.id }, at);
    this.#runContext.stream.frame("tool_execution_update", { name: call.name, id: call.id, status: "running" }, at);
  }

  /**
   * Audits, counts and closes a call that ran, or could not run as asked. The audit records the real result, even if a control
   * hides it. `released` is null if svc itself wrote the result.
   */
  made(
    call: ToolCall,
    result: ToolResult,
    latencyMs: number,
    released: Released<GovernedResult> | null,
    spoken: readonly Spoken[],
    entries: readonly LogEntry[] = [],
    ops: readonly WriteOp[] = [],
    kept?: KeptByThread,
  ): Promise<ToolOutcome> {
    const runContext = this.#runContext;
    const status = result.error === undefined ? "ok" : "error";
    const { shown, denial } = released ?? { shown: result as GovernedResult, denial: null };
    const { artifact } = shown;
    runContext.audit("tool_call", status, {
      tool: call.name,
      tool_call_id: call.id,
      args: this.#shown(call),
      latency_ms: Math.round(latencyMs * 100) / 100,
      ...(artifact !== undefined && { artifact_id: artifact.artifact_id }),
      ...(result.error === undefined ? {} : { error_code: result.error }),
    });
    const transport = this.#transportOf(call.name);
    runContext.metrics.count("svc_tool_calls_total", { transport, status, error_code: result.error ?? "" });
    if (result.error === "interrupted") this.#countInterrupted();
    runContext.metrics.observe("svc_tool_call_seconds", { transport }, latencyMs / 1000);
    if (runContext.spec.trace !== undefined) this.#endSpan(call, result, shown.text, latencyMs);
    if (denial !== null) runContext.denied(denial, { tool: call.name, tool_call_id: call.id });
    const shownStatus = shown.error === undefined ? "ok" : "error";
    const outcomeStatus = denial === null ? shownStatus : "denied";
    const text = denial === null ? this.#named(call, resultText(shown)) : resultText(shown);
    const { taint = [] } = shown;
    // A denied result shows nothing of its text.
    const { sources = [] } = denial === null ? shown : {};
    const of = { spoken, taint, sources, ...(artifact !== undefined && { artifact_id: artifact.artifact_id }) };
    const written = artifact === undefined ? ops : [...ops, ...artifact.ops];
    const { images = [], documents = [] } = shown;
    if (images.length + documents.length === 0)
      return this.#close(toolOutcome(call, text, outcomeStatus, of), entries, written, kept);
    return keepImages(runContext, images, documents).then(({ attachments, ops: keeping, note }) => {
      // The marker of an artifact is the last text.
      const lines = artifact === undefined ? [text, note] : [note, text];
      const words = lines.filter((line) => line !== "").join("\n");
      return this.#close(
        toolOutcome(call, words, outcomeStatus, { ...of, attachments }),
        entries,
        [...written, ...keeping],
        kept,
      );
    });
  }

  /** Ends the span of a call that ran. `text` is the result as the controls have released it. */
  #endSpan({ name, id, args }: ToolCall, { error }: ToolResult, text: string, latencyMs: number): void {
    const { deps, pipeline } = this.#runContext;
    const { recorded } = deps.mask;
    this.#runContext.span(() => ({
      name: spanNames.tool(name),
      kind: "internal",
      start: deps.env.now() - Math.round(latencyMs),
      error: error ?? null,
      attributes: {
        [attributeNames.operation]: "execute_tool",
        [attributeNames.tool]: name,
        [attributeNames.toolCall]: id,
        ...(error !== undefined && { [attributeNames.errorType]: error }),
        ...(deps.tracer?.capturesContent && {
          [attributeNames.toolArguments]: contentText(recorded.value(pipeline.shownArgs(args))),
          [attributeNames.toolResult]: contentText(recorded.text(text)),
        }),
      },
    }));
  }

  /** Audits and counts a call that the client of the request will make. */
  handed(call: ToolCall): ToolCall {
    const { name: tool, id: tool_call_id } = call;
    const args = this.#shown(call);
    this.#runContext.audit("tool_call", "ok", { tool, tool_call_id, args, handed: "client" });
    this.#runContext.metrics.count("svc_tool_calls_total", { transport: "client", status: "ok", error_code: "" });
    return call;
  }

  /** Audits, counts and closes a denied call. */
  denied(
    call: ToolCall,
    denial: Denial,
    spoken: readonly Spoken[],
    entries: readonly LogEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome> {
    const runContext = this.#runContext;
    runContext.denied(denial, { tool: call.name, tool_call_id: call.id });
    runContext.metrics.count("svc_tool_calls_total", {
      transport: this.#transportOf(call.name),
      status: "denied",
      error_code: "",
    });
    const outcome = toolOutcome(call, denyText(denial, call.name), "denied", { spoken });
    if (denial.frame !== undefined) this.#tellApproval(denial.frame);
    return this.#close(outcome, entries, ops);
  }

  /** Announces the approval request of a call that does not wait for it. */
  #tellApproval({ name, data }: NonNullable<Denial["frame"]>): void {
    const { deps, spec, eventLog, stream } = this.#runContext;
    const { approval_id } = data as { readonly approval_id: string };
    stream.frameInCall(name, data);
    tellNews(deps.bus, spec.principal.tenant_id, () => {
      return { kind: "approval", approval_id, thread_id: eventLog.threadId, status: "pending" };
    });
  }

  /** Closes calls that do not run, with the same frames as calls that ran: clients see every call start and end. */
  async leave(
    calls: readonly ToolCall[],
    why: string,
    entries: readonly LogEntry[] = [],
    ops: readonly WriteOp[] = [],
  ): Promise<ToolOutcome[]> {
    const outcomes = calls.map((call) => unrunTool(call, why));
    const at = await this.#runContext.eventLog.append([...entries, ...outcomes.map((outcome) => outcome.entry)], ops);
    for (const outcome of outcomes) {
      this.started(outcome.call, at);
      this.#ended(outcome, at);
    }
    return outcomes;
  }

  /** Closes a call that has not run because the run was stopped. */
  async stopped(call: ToolCall, entries?: readonly LogEntry[], ops?: readonly WriteOp[]): Promise<ToolOutcome> {
    this.#countInterrupted();
    const [outcome] = await this.leave([call], "the run was stopped", entries, ops);
    return outcome as ToolOutcome;
  }

  /** Closes an interrupted call whose outcome is unknown: it was handed out, or had started. `note` is added to the text for the model. */
  recalled(
    call: ToolCall,
    effect: string,
    entries: readonly LogEntry[] = [],
    ops: readonly WriteOp[] = [],
    note = "",
  ): Promise<ToolOutcome> {
    this.#countInterrupted();
    const unknown = unknownOutcome(effect);
    const text = resultText({ error: "interrupted", text: note === "" ? unknown : `${unknown}: ${note}` });
    return this.#close(toolOutcome(call, this.#named(call, text), "error"), entries, ops);
  }

  /** Closes a call that a control now denies, although an earlier process may have run it. */
  refusedAgain(
    call: ToolCall,
    effect: string,
    denial: Denial,
    entries: readonly LogEntry[],
    ops: readonly WriteOp[],
  ): Promise<ToolOutcome> {
    this.#runContext.denied(denial, { tool: call.name, tool_call_id: call.id });
    return this.recalled(call, effect, entries, ops, denyText(denial, call.name));
  }

  /** Closes a call because the user has sent another message: it does not run, or its answer is no longer awaited. */
  async superseded(call: ToolCall, entries?: readonly LogEntry[], ops?: readonly WriteOp[]): Promise<ToolOutcome> {
    const [outcome] = await this.leave([call], "superseded by what the user has said since", entries, ops);
    return outcome as ToolOutcome;
  }

  /** Stores the result, then sends the end frames. */
  async #close(
    outcome: ToolOutcome,
    entries: readonly LogEntry[] = [],
    ops: readonly WriteOp[] = [],
    kept?: KeptByThread,
  ): Promise<ToolOutcome> {
    this.#ended(outcome, await this.#runContext.eventLog.append([...entries, outcome.entry], ops, kept));
    return outcome;
  }

  #ended({ call, text, attachments, sources }: ToolOutcome, at: number): void {
    const images = attachments.map(({ url, media_type }) => ({ url, media_type }));
    const end = {
      ...{ name: call.name, output: text, id: call.id },
      ...(images.length > 0 && { attachments: images }),
      ...(sources.length > 0 && { sources }),
    };
    this.#runContext.stream.frame("tool_end", end, at);
    this.#runContext.stream.frame("tool_execution_update", { name: call.name, id: call.id, status: "complete" }, at);
  }

  /** Returns the result text, with the arguments if a person has edited them. */
  #named(call: ToolCall, text: string): string {
    return this.isEdited(call) ? editedText(call.args, text, this.#runContext.deps.mask) : text;
  }

  #countInterrupted(): void {
    const { metrics } = this.#runContext;
    metrics.count("svc_interrupted_tool_calls_total", {});
  }

  /** Closes a call with its result, after the controls have released it. */
  async came(call: ToolCall, tool: Tool, result: ToolResult, how: Came): Promise<ToolOutcome> {
    const { latencyMs, spoken = [], entries = [], ops = [] } = how;
    const released = await this.#runContext.pipeline.release(
      governedCall(this.#runContext, call, tool, call.args),
      result,
    );
    return this.made(call, result, latencyMs, released, [...spoken, ...released.spoken], entries, ops);
  }

  failIfFatal({ call, text }: ToolOutcome, { error }: ToolResult): void {
    if (error === undefined) return;
    const tool = this.#runContext.spec.agent.tools.find(({ name }) => name === call.name);
    if (tool?.fatal) this.#runContext.failFor(call.name, text);
  }
}
