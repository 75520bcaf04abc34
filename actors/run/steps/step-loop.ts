import { isJson } from "../../models/argument-text.ts";
import { branchStep } from "../compaction/branch-step.ts";
import type { RunContext } from "../context/run-context.ts";
import { type ReleasedReply, tellReply } from "../model/buffered-reply.ts";
import type { StepOutcome } from "../model/model-step.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import {
  assistantEntry,
  assistantMessage,
  type Ending,
  failedCall,
  limited,
  outOfSteps,
  stopped,
  suspended,
} from "./endings.ts";
import { leaveCut, leaveTools, runTools } from "./step-tools.ts";
import { isSentBack } from "./stop-hooks.ts";
import { takeInputs } from "./taken-inputs.ts";

// All patterns consist of steps. A step is one model call with the tool calls of its reply.

/** The options of a loop of steps. */
export interface Steps<E> {
  /** The last message of the prompt, in the role of the caller; it is not logged. Null for none. */
  ephemeralInstruction(step: number): string | null;
  /** Max model calls, those before a suspension included. */
  readonly limit: number;
  /** Metadata of the messages with tool calls. */
  readonly marks?: Readonly<Record<string, unknown>>;
  /** Replaces the ending after a model call without a reply. Absent, or null, for the usual one. */
  unanswered?(outcome: NoReply): Ending | null;
  /** Handles the final reply, which is not in the log yet. */
  answer(reply: ReleasedReply): E;
}

/**
 * Calls the model and its tools in turns, until the model answers or a limit is reached. A resumed run starts at its logged position.
 * Returns a suspended ending when all open calls wait for outside answers.
 */
export async function runSteps<E>(runContext: RunContext, tools: ToolRunner, steps: Steps<E>): Promise<E | Ending> {
  const { resumed } = runContext.step;
  runContext.step.resumed = null;
  if (resumed !== null) {
    const ending = await runTools(runContext, tools, resumed.calls);
    if (ending !== null) return ending;
    // If the last of several calls already had a result, its outcome is in the log.
    runContext.step.endedOnDenial = resumed.endedOnDenial ?? runContext.step.endedOnDenial;
  }
  const first = (resumed?.step ?? runContext.step.before) + 1;
  // The interrupted step was the last one allowed: its text is the answer, and its calls are not run.
  if (resumed !== null && first > steps.limit) {
    const said = runContext.branch.messages.findLast(({ role }) => role === "assistant")?.content ?? "";
    return outOfSteps({ text: said, isRefused: false });
  }
  for (let step = first; ; step++) {
    runContext.step.number = step;
    // A durable run may have to release its slot to another run between two steps.
    const { durableRun } = runContext;
    const asks = durableRun !== null && (step > first || !durableRun.hasSlot) && runContext.askedBy === null;
    if (asks && !(await durableRun.mayStep())) return suspended;
    if (runContext.steering.isDue && !runContext.cancellation.cancelled) await takeInputs(runContext, "step");
    const outcome = await branchStep(runContext, steps.ephemeralInstruction(step));
    if (outcome.kind !== "reply") return steps.unanswered?.(outcome) ?? notAnswered(runContext, outcome);
    const { reply } = outcome;
    if (reply.tool_calls.length === 0) {
      const isBack = runContext.hooks !== null && (await isSentBack(runContext, reply, step >= steps.limit));
      if (isBack) continue;
      return steps.answer(reply);
    }

    // Text next to tool calls is published without a check: the checks are for the final reply.
    if (runContext.step.replyMode === "buffered") tellReply(runContext, reply);
    const calls = tools.identify(reply.tool_calls);
    const isLast = step >= steps.limit;
    const isCut = isCutOff(reply);
    const entry = assistantEntry(runContext, reply, calls, {
      ...steps.marks,
      ...((isLast || isCut) && { truncated: true }),
    });
    runContext.branch.add([assistantMessage(reply, calls, entry)]);
    // The reply is logged in one batch with the first entries of its calls.
    const replied = runContext.eventLog.buffer([entry], runContext.billing.ops()).then((at) => {
      runContext.committed();
      runContext.stream.announced(at);
    });
    replied.catch(() => {});
    const pending = calls.map((call, at) => ({
      call,
      argumentsText: reply.tool_calls[at]?.arguments ?? "",
      wait: null,
      replied,
    }));
    if (isCut) return leaveCut(runContext, tools, pending, reply);
    // The calls of the last step are not run; the log records that instead (decision 35).
    const ending = isLast
      ? await leaveTools(runContext, tools, pending, "the run is out of steps")
      : await runTools(runContext, tools, pending);
    if (ending !== null) return ending;
    if (isLast) return outOfSteps(reply);
  }
}

/**
 * True if the output limit cut off the calls themselves. Decision 210: the turn ends, because another try would reach the same limit. A
 * call without arguments counts as complete unless it is the last one.
 */
function isCutOff({ stop_reason, tool_calls }: ReleasedReply): boolean {
  if (stop_reason !== "max_tokens") return false;
  return tool_calls.some(
    ({ arguments: words }, at) => !isJson(words) && (words !== "" || at === tool_calls.length - 1),
  );
}

/** A model call without a reply. */
export type NoReply = Exclude<StepOutcome, { readonly kind: "reply" }>;

/** Returns the ending of a run after a model call without a reply. */
export function notAnswered(runContext: RunContext, outcome: NoReply): Ending {
  const { partial, thoughts } = outcome;
  if (outcome.kind === "breach") return limited(runContext, outcome.breach, partial, thoughts);
  if (outcome.kind === "stopped") return stopped(runContext, partial, thoughts);
  return failedCall(runContext, outcome.failure, partial, thoughts);
}
