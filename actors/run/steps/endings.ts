import type { FailedCall } from "../../../bus/frames/output.ts";
import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { Breach } from "../../../governance/budget.ts";
import { denialOf } from "../../../governance/controls/denial.ts";
import { recordedVerdicts } from "../../../governance/controls/verdicts.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import { interruptedEntry, type LogEntry } from "../../log/entry.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import { failureAdvice } from "../../models/failure-advice.ts";
import { failureCodeOf } from "../../models/failure-code.ts";
import type { ModelFailure } from "../../models/provider.ts";
import type { RunContext } from "../context/run-context.ts";
import { keptThoughts, type ReleasedReply, type SentThought } from "../model/buffered-reply.ts";
import { noteEntry } from "../spec/notes.ts";
import type { Resumed } from "../spec/run-spec.ts";

/** The result of a pattern's loop. */
export type Ending = Finished | Suspended;

/** The run leaves memory until an outside answer arrives or a slot is free. */
export interface Suspended {
  readonly kind: "suspended";
}

export const suspended: Suspended = { kind: "suspended" };

/** The turn is over: its result for the client, and the entries that are not written yet. */
export interface Finished {
  readonly kind: "finished";
  readonly final: string | null;
  readonly stop_reason: StopReason;
  /** A model or tool failure as text for the client. */
  readonly failure: string | null;
  /** True for a failed tool. */
  readonly failedTool?: true;
  /** Present for a failed model call. */
  readonly failedCall?: FailedCall;
  /** True if a later try of the step may succeed. */
  readonly mayPass?: true;
  /** True if a limit of the run caused the ending. */
  readonly limited?: true;
  readonly entries: readonly LogEntry[];
  /** True if the turn achieved its purpose. */
  readonly ok: boolean;
  /** True if a control withheld the reply, so that `final` is the refusal's own text. */
  readonly withheld?: true;
  /** Calls that the client must make; absent if the reply ends in none. */
  readonly handed?: readonly ToolCall[];
  /** True if the reply is complete: the run then continues with queued follow-ups, if there are any. */
  readonly isAnswer?: boolean;
}

/** Ends the turn with a reply of the model. */
export function answered(
  runContext: RunContext,
  reply: ReleasedReply,
  marks: Readonly<Record<string, unknown>> = {},
): Finished {
  const entry = assistantEntry(runContext, reply, [], marks);
  runContext.branch.add([assistantMessage(reply, [], entry)]);
  return {
    kind: "finished",
    final: reply.text,
    stop_reason: reply.stop_reason,
    failure: null,
    entries: [entry],
    ok: !runContext.step.endedOnDenial && !reply.isRefused,
    isAnswer: reply.stop_reason !== "max_tokens",
    ...(reply.isRefused && { withheld: true as const }),
  };
}

/** Ends a resumed run whose reply is already in the log; null if there is none. */
export function answeredBefore({ endedOnDenial, answer }: Resumed): Finished | null {
  if (answer === null) return null;
  const { text: final, stop_reason } = answer;
  const isAnswer = stop_reason !== "max_tokens";
  return { kind: "finished", final, stop_reason, failure: null, entries: [], ok: endedOnDenial !== true, isAnswer };
}

/** Ends the turn after its last allowed step, whose tool calls were not run. */
export function outOfSteps(reply: Pick<ReleasedReply, "text" | "isRefused">): Finished {
  return {
    kind: "finished",
    final: reply.text === "" ? null : reply.text,
    stop_reason: "max_turns",
    failure: null,
    entries: [],
    ok: !reply.isRefused,
  };
}

/** Ends the turn after a reply that the output limit cut off within its calls, which were not run. */
export function cutShort(reply: ReleasedReply): Finished {
  return { ...outOfSteps(reply), stop_reason: "max_tokens" };
}

/** Ends the turn after a reply that does not fit the output schema. Nothing of it was published. */
export function misfit(runContext: RunContext, reply: ReleasedReply, problem: string): Finished {
  const { deps, spec } = runContext;
  deps.log.warn(
    { run_id: spec.run_id, model: runContext.step.route.id, problem },
    "the answer does not fit the output_schema",
  );
  return {
    kind: "finished",
    final: null,
    stop_reason: reply.stop_reason,
    failure: `the answer does not fit the output_schema: ${problem}`.slice(0, 200),
    entries: [noteEntry("output_misfit", { problem })],
    ok: false,
  };
}

/** Ends the turn after all sub-agents have failed. */
export function nobodyAnswered(): Finished {
  const failure = "none of the agents that were asked has answered";
  return { kind: "finished", final: null, stop_reason: "unknown", failure, entries: [], ok: false };
}

/** Ends the turn after a failure of the provider. Decision 33: the published part of the reply is kept. */
export function failedCall(
  runContext: RunContext,
  failure: ModelFailure,
  partial: string,
  thoughts: readonly SentThought[] = [],
): Finished {
  const { deps, spec } = runContext;
  const { id: model, provider } = runContext.step.route;
  const advice = failureAdvice(runContext.step.route, failure);
  deps.log.warn({ run_id: spec.run_id, model, provider, cause: failure.message, advice }, "model call failed");
  return {
    kind: "finished",
    final: partial === "" ? null : partial,
    stop_reason: "unknown",
    failure: deps.mask.sent.text(`model provider failed: ${failure.publicMessage}`).slice(0, 200),
    failedCall: { code: failureCodeOf(failure), retryAfterMs: failure.retryAfterMs },
    // A prompt that is too long would fail again.
    ...(failure.overflow ? {} : { mayPass: true as const }),
    entries: partialEntries(runContext, partial, thoughts, "error"),
    ok: false,
  };
}

/** Ends the turn after the failure of a tool that must not fail. Its result is in the log. */
function failedTool({ deps }: RunContext, { name, text }: { readonly name: string; readonly text: string }): Finished {
  return {
    kind: "finished",
    final: null,
    stop_reason: "unknown",
    failure: deps.mask.sent.text(`tool ${name} failed: ${text}`).slice(0, 200).toWellFormed(),
    failedTool: true,
    entries: [],
    ok: false,
  };
}

/** Ends a turn that was aborted or ran out of time. `partial` is the text published so far. */
export function stopped(runContext: RunContext, partial: string, thoughts: readonly SentThought[] = []): Finished {
  if (runContext.abortReason === null && runContext.failedTool !== null)
    return failedTool(runContext, runContext.failedTool);
  if (runContext.abortReason === null) {
    const limit = "max_wall_clock_seconds";
    return limited(
      runContext,
      { limit, detail: `${limit} (${runContext.spec.agent.limits[limit]}) reached` },
      partial,
      thoughts,
    );
  }
  const interrupted = runContext.abortReason === "shutdown";
  const entries = partialEntries(runContext, partial, thoughts, interrupted ? "interrupted" : "aborted");
  return {
    kind: "finished",
    final: partial === "" ? null : partial,
    stop_reason: "unknown",
    failure: null,
    entries: interrupted ? [...entries, interruptedEntry(runContext.spec.run_id, "shutdown")] : entries,
    ok: false,
  };
}

/** Ends the turn at a limit, except the one on tool calls. The reply names the limit, and the denial is audited. */
export function limited(
  runContext: RunContext,
  breach: Breach,
  partial: string,
  thoughts: readonly SentThought[] = [],
): Finished {
  const words = `run limit reached: ${breach.limit}`;
  const text = partial === "" ? words : `\n\n${words}`;
  runContext.stream.say(text);
  runContext.denied(denialOf("limits", { rule: breach.limit, detail: breach.detail }), null);
  return {
    kind: "finished",
    final: partial + text,
    stop_reason: "unknown",
    failure: null,
    entries: partialEntries(runContext, partial + text, thoughts, "limited"),
    ok: false,
    limited: true,
  };
}

/** The reply as a message for the next step; `entry` is its log entry. */
export function assistantMessage(reply: ReleasedReply, calls: readonly ToolCall[], entry: LogEntry): ContextMessage {
  return contextMessage({
    entry,
    role: "assistant",
    content: reply.text,
    tool_calls: calls,
    thoughts: reply.thoughts ?? null,
  });
}

/** The reply as a log entry. */
export function assistantEntry(
  runContext: RunContext,
  reply: ReleasedReply,
  calls: readonly ToolCall[],
  marks: Readonly<Record<string, unknown>> = {},
): LogEntry {
  const metadata: Record<string, unknown> = {
    model: runContext.step.route.id,
    stop_reason: reply.stop_reason,
    ...marks,
  };
  if (reply.usage !== null) metadata.usage = reply.usage;
  const thoughts = keptThoughts(reply);
  if (thoughts.length > 0) metadata.thinking = thoughts;
  Object.assign(metadata, recordedVerdicts(reply.spoken));
  if (runContext.askedBy !== null) metadata.agent = runContext.spec.agent.name;
  const { sources } = runContext.run.taint;
  if (sources.length > 0) metadata.taint = sources;
  return {
    kind: "message",
    role: "assistant",
    content: reply.text,
    extra: calls.length === 0 ? { metadata } : { tool_calls: calls, metadata },
  };
}

/** The log entry of a partial reply, with its status. If only thoughts were published, later turns are not shown the entry. */
function partialEntries(
  runContext: RunContext,
  text: string,
  thoughts: readonly SentThought[],
  status: string,
): LogEntry[] {
  if (text === "" && thoughts.length === 0) return [];
  const metadata: Record<string, unknown> = { model: runContext.step.route.id, status };
  if (thoughts.length > 0) metadata.thinking = thoughts;
  const { sources } = runContext.run.taint;
  if (sources.length > 0) metadata.taint = sources;
  const entry: LogEntry = { kind: "message", role: "assistant", content: text, extra: { metadata } };
  if (text !== "") runContext.branch.add([contextMessage({ role: "assistant", content: text, entry })]);
  return [entry];
}
