import { checkAnswer } from "../../../governance/answer-problem.ts";
import { correctionWords } from "../../models/answer-words.ts";
import type { RunContext } from "../context/run-context.ts";
import { type ReleasedReply, tellReply } from "../model/buffered-reply.ts";
import { noteEntry } from "../spec/notes.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";
import { answered, type Ending, misfit } from "./endings.ts";
import { runSteps, type Steps } from "./step-loop.ts";

// The steps that end in the answer of the turn. With spec.output_schema the reply is buffered until it fits the schema, so that clients
// only receive valid answers. One that does not fit is requested once more; a second misfit fails the turn.

/** Max tries for a reply that fits the schema. */
const triesMax = 2;

/** Options of the steps that end in the answer of the turn. */
export type FinalSteps = Omit<Steps<never>, "answer">;

/** Runs steps until the turn is over. */
export function finalSteps(runContext: RunContext, tools: ToolRunner, steps: FinalSteps): Promise<Ending> {
  if (runContext.answerSchema !== null) return fittingSteps(runContext, tools, steps);
  return runSteps(runContext, tools, { ...steps, answer: (reply) => answered(runContext, reply) });
}

/**
 * Runs steps until a reply fits the schema. The reply is not published yet. `isJudged`: other models judge it next. A durable run notes it
 * first, so that a crash during the judgement does not repeat the steps.
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

/** True for a reply that was cut off, or refused by the model or by a control. */
export function isBroken({ isRefused, stop_reason }: ReleasedReply): boolean {
  return isRefused || stop_reason === "max_tokens" || stop_reason === "refusal";
}

interface BufferedReply {
  readonly kind: "reply";
  readonly reply: ReleasedReply;
}

/** Notes a reply in the log before it is judged. */
async function noteAnswer(runContext: RunContext, reply: ReleasedReply): Promise<void> {
  const { route, number: step } = runContext.step;
  const note = { model: route.id, step, reply: { ...reply, sentThoughts: null } };
  await runContext.eventLog.append([noteEntry("held_answer", note)], runContext.billing.ops());
}

/** Returns the noted reply of a resumed run; null if there is none. */
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

/** The number of misfits before the run was suspended, and the newest problem. */
function misfitsOf({ step: { resumed } }: RunContext): { misfits: number; problem: string | null } {
  const notes = resumed?.notes ?? [];
  const misfits = notes.length - 1 - notes.findLastIndex(({ type }) => type !== "output_misfit");
  return { misfits, problem: misfits === 0 ? null : String(notes.at(-1)?.problem) };
}

/** Returns the reply in canonical form, or its problem. A broken reply passes unchanged: its stop reason shows the failure. */
async function fit(runContext: RunContext, reply: ReleasedReply): Promise<ReleasedReply | string> {
  if (runContext.answerSchema === null || isBroken(reply)) return reply;
  const checked = await checkAnswer(runContext.answerSchema, reply.text, runContext.deps.env);
  return checked.ok ? { ...reply, text: checked.json } : checked.problem;
}

function correction({ answerSchema }: RunContext, problem: string): string | null {
  return answerSchema === null ? null : correctionWords(problem, answerSchema);
}
