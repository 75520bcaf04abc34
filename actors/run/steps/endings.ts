import type { FailedCall } from "../../../bus/frames/output.ts";
import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import type { Breach } from "../../../governance/budget.ts";
import { denialOf } from "../../../governance/controls/denial.ts";
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

/** How the loop of a turn was left. */
export type Ending = Finished | Suspended;

/** The run is put aside until somebody outside has answered. */
export interface Suspended {
  readonly kind: "suspended";
}

export const suspended: Suspended = { kind: "suspended" };

/** The turn is over: what the client is told and what is still to be written. */
export interface Finished {
  readonly kind: "finished";
  readonly final: string | null;
  readonly stop_reason: StopReason;
  /** The model's failure in words for the client. */
  readonly failure: string | null;
  /** The failure is that of a tool. */
  readonly failedTool?: true;
  /** The failure is that of a model call. */
  readonly failedCall?: FailedCall;
  /** The failure may be over when the step is tried again later. */
  readonly mayPass?: true;
  /** A limit of the run was in the way. */
  readonly limited?: true;
  readonly entries: readonly LogEntry[];
  /** Whether the reply is what the turn was for. */
  readonly ok: boolean;
  /** Calls that the client of the request is to make; absent where the answer does not end in any. */
  readonly handed?: readonly ToolCall[];
  /** The model has said all that it wanted to: the run goes on if somebody has said something to it meanwhile. */
  readonly isAnswer?: boolean;
}

/** The model has answered. */
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
  };
}

/** The model had answered before the run was cut off, and its answer is in the log. */
export function answeredBefore({ endedOnDenial, answer }: Resumed): Finished | null {
  if (answer === null) return null;
  const { text: final, stop_reason } = answer;
  const isAnswer = stop_reason !== "max_tokens";
  return { kind: "finished", final, stop_reason, failure: null, entries: [], ok: endedOnDenial !== true, isAnswer };
}

/** The model asks for tools in its last step, and they were not run. */
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

/** The output limit has cut the model off in the middle of its calls, and they were not run. */
export function cutShort(reply: ReleasedReply): Finished {
  return { ...outOfSteps(reply), stop_reason: "max_tokens" };
}

/** The model has answered, and not as it has to. Nothing of it was shown. */
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

/** None of the agents that were asked has come to an answer. */
export function nobodyAnswered(): Finished {
  const failure = "none of the agents that were asked has answered";
  return { kind: "finished", final: null, stop_reason: "unknown", failure, entries: [], ok: false };
}

/** The provider failed; what was shown of its words by then is kept (decision 33). */
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
    failure: deps.mask.told.text(`model provider failed: ${failure.told}`).slice(0, 200),
    failedCall: { code: failureCodeOf(failure), retryAfterMs: failure.retryAfterMs },
    // A prompt that is too long is as long at the next try.
    ...(failure.overflow ? {} : { mayPass: true as const }),
    entries: partialEntries(runContext, partial, thoughts, "error"),
    ok: false,
  };
}

/** A tool has failed without which the run is not to go on; its result is in the log. */
function failedTool({ deps }: RunContext, { name, text }: { readonly name: string; readonly text: string }): Finished {
  return {
    kind: "finished",
    final: null,
    stop_reason: "unknown",
    failure: deps.mask.told.text(`tool ${name} failed: ${text}`).slice(0, 200).toWellFormed(),
    failedTool: true,
    entries: [],
    ok: false,
  };
}

/** Somebody stopped the run, or its time was over, while the model had said `partial`. */
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

/** A limit other than the one on tool calls is in the way: the reply says so, and the denial is audited. */
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

/** The model's message as the next step is shown it; `entry` is what it is written as. */
export function assistantMessage(reply: ReleasedReply, calls: readonly ToolCall[], entry: LogEntry): ContextMessage {
  return contextMessage({
    entry,
    role: "assistant",
    content: reply.text,
    tool_calls: calls,
    thoughts: reply.thoughts ?? null,
  });
}

/** The model's message for the log. */
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
  if (reply.spoken.length > 0) metadata.controls = reply.spoken;
  if (runContext.askedBy !== null) metadata.agent = runContext.spec.agent.name;
  return {
    kind: "message",
    role: "assistant",
    content: reply.text,
    extra: calls.length === 0 ? { metadata } : { tool_calls: calls, metadata },
  };
}

/**
 * What was said before something went wrong, with its status. A model that had only thought by then has said nothing that a later turn is
 * shown.
 */
function partialEntries(
  runContext: RunContext,
  text: string,
  thoughts: readonly SentThought[],
  status: string,
): LogEntry[] {
  if (text === "" && thoughts.length === 0) return [];
  const metadata: Record<string, unknown> = { model: runContext.step.route.id, status };
  if (thoughts.length > 0) metadata.thinking = thoughts;
  const entry: LogEntry = { kind: "message", role: "assistant", content: text, extra: { metadata } };
  if (text !== "") runContext.branch.add([contextMessage({ role: "assistant", content: text, entry })]);
  return [entry];
}
