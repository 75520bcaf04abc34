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
import { takeInputs } from "./taken-inputs.ts";

// What every pattern is made of: steps. A step is a model call, and the tools that it asks for.

/** How steps are made. */
export interface Steps<E> {
  /** Shown to the model behind everything else, as the caller's words, and kept nowhere. */
  ephemeralInstruction(step: number): string | null;
  /** Most model calls, with those that were made before the run was put aside. */
  readonly limit: number;
  /** Metadata of the messages that ask for tools. */
  readonly marks?: Readonly<Record<string, unknown>>;
  /** How the run ends where the model was asked in vain; null, and absent, for the way that it always does. */
  unanswered?(outcome: NoReply): Ending | null;
  /** What becomes of the model's answer, which is not in the log yet. */
  answer(reply: ReleasedReply): E;
}

/**
 * Asks the model, runs the tools it asks for, and asks again, until it answers or may not go on. Begins where the log of the run
 * says, and ends when nothing goes on before somebody outside has answered.
 */
export async function runSteps<E>(runContext: RunContext, tools: ToolRunner, steps: Steps<E>): Promise<E | Ending> {
  const { resumed } = runContext.step;
  runContext.step.resumed = null;
  if (resumed !== null) {
    const ending = await runTools(runContext, tools, resumed.calls);
    if (ending !== null) return ending;
    // Of calls side by side the last may have its result since before.
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
    // A durable run gives its slot up between two steps where others are to have it.
    const { durableRun } = runContext;
    const asks = durableRun !== null && (step > first || !durableRun.hasSlot) && runContext.askedBy === null;
    if (asks && !(await durableRun.mayStep())) return suspended;
    if (runContext.steering.isDue && !runContext.cancellation.cancelled) await takeInputs(runContext, "step");
    const outcome = await branchStep(runContext, steps.ephemeralInstruction(step));
    if (outcome.kind !== "reply") return steps.unanswered?.(outcome) ?? notAnswered(runContext, outcome);
    const { reply } = outcome;
    if (reply.tool_calls.length === 0) return steps.answer(reply);

    // Words beside calls are shown as they are: what is looked at is the answer.
    if (runContext.step.replyMode === "buffered") tellReply(runContext, reply);
    const calls = tools.identify(reply.tool_calls);
    const isLast = step >= steps.limit;
    const isCut = isCutOff(reply);
    const entry = assistantEntry(runContext, reply, calls, {
      ...steps.marks,
      ...((isLast || isCut) && { truncated: true }),
    });
    runContext.branch.add([assistantMessage(reply, calls, entry)]);
    // It goes into the log with what its calls begin with.
    const replied = runContext.eventLog.hold([entry], runContext.billing.ops()).then((at) => {
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
    // The calls of the last step are not run, and the log says so (decision 35).
    const ending = isLast
      ? await leaveTools(runContext, tools, pending, "the run is out of steps")
      : await runTools(runContext, tools, pending);
    if (ending !== null) return ending;
    if (isLast) return outOfSteps(reply);
  }
}

/**
 * Whether the output limit has cut off the calls themselves. Asked again, the model would run into the same limit (decision 210). A call
 * without arguments may be whole unless it is the last.
 */
function isCutOff({ stop_reason, tool_calls }: ReleasedReply): boolean {
  if (stop_reason !== "max_tokens") return false;
  return tool_calls.some(
    ({ arguments: words }, at) => !isJson(words) && (words !== "" || at === tool_calls.length - 1),
  );
}

/** A model call that has not come to a reply. */
export type NoReply = Exclude<StepOutcome, { readonly kind: "reply" }>;

/** How the run ends by it. */
export function notAnswered(runContext: RunContext, outcome: NoReply): Ending {
  const { partial, thoughts } = outcome;
  if (outcome.kind === "breach") return limited(runContext, outcome.breach, partial, thoughts);
  if (outcome.kind === "stopped") return stopped(runContext, partial, thoughts);
  return failedCall(runContext, outcome.failure, partial, thoughts);
}
