import { checkAnswer } from "../../../governance/answer-problem.ts";
import { correctionWords } from "../../models/answer-words.ts";
import type { RunContext } from "../context/run-context.ts";
import { type ReleasedReply, tellReply } from "../model/buffered-reply.ts";
import { noteEntry } from "../spec/notes.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import { answered, type Ending, misfit } from "./endings.ts";
import { runSteps, type Steps } from "./step-loop.ts";

// The steps that come to the answer of the turn. With spec.output_schema it is held until it fits: what a client reads as an answer
// is what it has been promised. One that does not fit is asked for once more, and then it is a failure of the model.

/** How often an answer is asked for that does not fit. */
const triesMax = 2;

/** How steps are made whose answer is that of the turn. */
export type FinalSteps = Omit<Steps<never>, "answer">;

/** Steps until the turn is over. */
export function finalSteps(runContext: RunContext, tools: ToolRunner, steps: FinalSteps): Promise<Ending> {
  if (runContext.answerSchema !== null) return fittingSteps(runContext, tools, steps);
  return runSteps(runContext, tools, { ...steps, answer: (reply) => answered(runContext, reply) });
}

/**
 * Steps until there is an answer that may be given. Nobody has read it yet. `isJudged` says that other models are asked of it before it is
 * given: a durable run notes it first, so that it is not asked for again when the process dies meanwhile.
 */
export async function bufferedSteps(
  runContext: RunContext,
  tools: ToolRunner,
  steps: FinalSteps,
  isJudged = false,
): Promise<BufferedReply | Ending> {
  runContext.step.replyMode = "buffered";
  const noted = notedAnswer(runContext);
  if (noted !== null) return { kind: "reply", reply: noted };
  const { misfits, problem: earlier } = misfitsOf(runContext);
  let problem = earlier;
  for (let tries = misfits + 1; ; tries++) {
    const wrong = problem;
    const end = await runSteps(runContext, tools, {
      ...steps,
      ephemeralInstruction: (step) =>
        wrong === null ? steps.ephemeralInstruction(step) : correction(runContext, wrong),
      answer: (reply): BufferedReply => ({ kind: "reply", reply }),
    });
    if (end.kind !== "reply") return end;
    const fitted = await fit(runContext, end.reply);
    if (typeof fitted !== "string") {
      if (isJudged && runContext.durableRun !== null && !isBroken(fitted)) await noteAnswer(runContext, fitted);
      return { kind: "reply", reply: fitted };
    }
    problem = fitted;
    if (tries >= triesMax) return misfit(runContext, end.reply, problem);
    await runContext.eventLog.append([noteEntry("output_misfit", { problem })], runContext.billing.ops());
  }
}

/** Whether an answer is not what the model would have said: it was cut off, or refused by it or by a control. */
export function isBroken({ isRefused, stop_reason }: ReleasedReply): boolean {
  return isRefused || stop_reason === "max_tokens" || stop_reason === "refusal";
}

interface BufferedReply {
  readonly kind: "reply";
  readonly reply: ReleasedReply;
}

/** The answer goes into the log before anything is made of it. */
async function noteAnswer(runContext: RunContext, reply: ReleasedReply): Promise<void> {
  const { route, number: step } = runContext.step;
  const note = { model: route.id, step, reply: { ...reply, told: null } };
  await runContext.eventLog.append([noteEntry("held_answer", note)], runContext.billing.ops());
}

/** The answer that the run had before it was cut off, and had not given; null when it had none. */
function notedAnswer(runContext: RunContext): ReleasedReply | null {
  const { spec } = runContext;
  const { resumed } = runContext.step;
  const last = resumed?.notes.at(-1);
  if (!resumed || last?.type !== "held_answer" || resumed.step > 0) return null;
  runContext.step.resumed = null;
  runContext.step.endedOnDenial = resumed.endedOnDenial ?? runContext.step.endedOnDenial;
  const { model, step, reply } = last as unknown as { model: string; step: number; reply: ReleasedReply };
  runContext.step.route = spec.routes.find(({ id }) => id === model) ?? runContext.step.route;
  runContext.step.number = step;
  return reply;
}

async function fittingSteps(runContext: RunContext, tools: ToolRunner, steps: FinalSteps): Promise<Ending> {
  const end = await bufferedSteps(runContext, tools, steps);
  if (end.kind !== "reply") return end;
  tellReply(runContext, end.reply);
  return answered(runContext, end.reply);
}

/** How often the answer that is being made did not fit before the run was put aside, and why. */
function misfitsOf({ step: { resumed } }: RunContext): { misfits: number; problem: string | null } {
  const notes = resumed?.notes ?? [];
  const misfits = notes.length - 1 - notes.findLastIndex(({ type }) => type !== "output_misfit");
  return { misfits, problem: misfits === 0 ? null : String(notes.at(-1)?.problem) };
}

/** The answer as it may be given, or why it may not. One that is broken says so by its stop reason. */
async function fit(runContext: RunContext, reply: ReleasedReply): Promise<ReleasedReply | string> {
  if (runContext.answerSchema === null || isBroken(reply)) return reply;
  const checked = await checkAnswer(runContext.answerSchema, reply.text, runContext.deps.env);
  return checked.ok ? { ...reply, text: checked.json } : checked.problem;
}

function correction({ answerSchema }: RunContext, problem: string): string | null {
  return answerSchema === null ? null : correctionWords(problem, answerSchema);
}
