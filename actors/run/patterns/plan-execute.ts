import { lazily } from "../../../bus/lazily.ts";
import type { StopReason } from "../../../bus/protocol/model-reply.ts";
import { readOwnSchema } from "../../../manifests/answer-schema.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { RunContext } from "../context/run-context.ts";
import type { ReleasedReply } from "../model/buffered-reply.ts";
import { askAside, givenMessages } from "../model/side-question.ts";
import { toolChoiceDue } from "../model/tool-choice.ts";
import { workingSet } from "../prompt/working-set.ts";
import { noteEntry, type RunNote } from "../spec/notes.ts";
import { assistantEntry, assistantMessage, type Ending } from "../steps/endings.ts";
import { finalSteps } from "../steps/final-steps.ts";
import type { Pattern } from "../steps/pattern.ts";
import { notAnswered, runSteps } from "../steps/step-loop.ts";
import type { ToolRunner } from "../tool-calls/tool-runner.ts";

// A planner splits the request into subtasks. An executor does them in order with the agent's tools, and then the agent answers. The
// executor's tool calls and replies are in the log, so that later turns know of them. Clients see its tool calls and only the final reply.
// Notes after the plan and after each subtask record the progress.

interface Subtask {
  readonly title: string;
  readonly task: string;
}

/** A finished subtask. */
interface Done {
  readonly title: string;
  readonly ok: boolean;
  readonly result: string;
}

interface Progress {
  /** Null before the first plan. */
  plan: readonly Subtask[] | null;
  /** Number of finished subtasks of the current plan. */
  at: number;
  replans: number;
  readonly done: Done[];
}

const titleMax = 200;
const taskMax = 4_000;
/** Max characters of a subtask's result in the note and in later prompts. */
const resultMax = 4_000;

/** Plans, carries out the subtasks and answers. */
export const planExecute: Pattern = async (runContext, tools) => {
  const { agent } = runContext.spec;
  const progress = progressOf(runContext.step.resumed?.notes ?? []);
  let ending = progress.plan === null ? await makePlan(runContext, progress) : null;
  while (ending === null) {
    // Checked first, so that a resumed run also replans after a failure before its suspension.
    if (hasFailed(progress) && progress.replans < agent.planExecute.max_replans) {
      progress.replans++;
      ending = await makePlan(runContext, progress);
    } else if (isOver(progress)) break;
    else ending = await carryOut(runContext, tools, progress);
  }
  if (ending !== null) return ending;
  runContext.step.replyMode = "streamed";
  runContext.step.routes = runContext.spec.routes;
  const ephemeralInstruction = progress.done.length === 0 ? runContext.step.ephemeralInstruction : finish(progress);
  return finalSteps(runContext, tools, {
    limit: agent.recursion_limit,
    ephemeralInstruction: () => ephemeralInstruction,
  });
};

/** True if all subtasks are finished, or one has failed and no replan is left. */
function isOver(progress: Progress): boolean {
  return progress.at >= (progress.plan?.length ?? 0) || hasFailed(progress);
}

function hasFailed({ at, done }: Progress): boolean {
  return at > 0 && done.at(-1)?.ok === false;
}

/** Rebuilds the progress from the notes of a resumed run. */
function progressOf(notes: readonly RunNote[]): Progress {
  const progress: Progress = { plan: null, at: 0, replans: 0, done: [] };
  for (const note of notes) {
    if (note.type === "plan") {
      if (progress.plan !== null) progress.replans++;
      progress.plan = note.subtasks as readonly Subtask[];
      progress.at = 0;
    }
    if (note.type !== "subtask") continue;
    progress.at++;
    progress.done.push(note as unknown as Done);
  }
  return progress;
}

/**
 * Asks the planner for subtasks. Null if the run continues. An unusable plan counts as a plan without subtasks: the agent answers alone.
 */
async function makePlan(runContext: RunContext, progress: Progress): Promise<Ending | null> {
  const choosing = toolChoiceDue(runContext);
  if (choosing !== null) await choosing;
  const { agent } = runContext.spec;
  const { messages, turnStart } = runContext.branch;
  const { ephemeralInstruction } = runContext.step;
  const { planner, max_subtasks } = agent.planExecute;
  const outcome = await askAside<{ subtasks: readonly Subtask[] }>(runContext, {
    routes: planner === null ? runContext.spec.routes : [planner],
    task: planTask(max_subtasks),
    given: {
      conversation: givenMessages(workingSet(messages, agent.session, turnStart).slice(-givenMessagesMax)),
      ...(ephemeralInstruction !== null && { request: ephemeralInstruction }),
      tools: runContext.offered.tools.map(({ name, description }) => ({ name, description })),
      ...(progress.done.length > 0 && { done: progress.done }),
    },
    answer: planSchema(),
  });
  if (outcome.kind !== "answer" && outcome.kind !== "unusable") return notAnswered(runContext, outcome);
  if (outcome.kind === "unusable")
    runContext.metrics.count("svc_control_degraded_total", { control: "plan_execute", reason: outcome.kind });
  const subtasks = outcome.kind === "answer" ? outcome.value.subtasks.slice(0, max_subtasks) : [];
  progress.plan = subtasks.map(({ title, task }) => ({
    title: title.slice(0, titleMax),
    task: task.slice(0, taskMax),
  }));
  progress.at = 0;
  await runContext.eventLog.append([noteEntry("plan", { subtasks: progress.plan })], runContext.billing.ops());
  return null;
}

/** Max messages that the planner is shown; the newest ones. */
const givenMessagesMax = 40;

/** Runs the executor on the next subtask. Null if the run continues, even after a failed subtask. */
async function carryOut(runContext: RunContext, tools: ToolRunner, progress: Progress): Promise<Ending | null> {
  const { executor, executor_recursion_limit } = runContext.spec.agent.planExecute;
  const subtask = progress.plan?.[progress.at] as Subtask;
  const number = progress.done.length + 1;
  runContext.step.replyMode = "hidden";
  runContext.step.routes = executor === null ? runContext.spec.routes : [executor];
  const words = instruct(subtask, progress);
  const end = await runSteps(runContext, tools, {
    limit: executor_recursion_limit,
    ephemeralInstruction: () => words,
    marks: { subtask: number },
    answer: (reply) => ({ kind: "reply" as const, reply }),
  });
  const undone = end.kind === "finished" ? undoneReasons[end.stop_reason] : undefined;
  if (end.kind !== "reply" && undone === undefined) return end;
  const said = end.kind === "reply" ? end.reply : null;
  const ok = said !== null && !isFailure(said);
  const result = said?.text ?? undone?.(executor_recursion_limit) ?? "";
  const done: Done = { title: subtask.title, ok, result: result.slice(0, resultMax) };
  const entries: LogEntry[] = [];
  if (said !== null) {
    const entry = assistantEntry(runContext, said, [], { subtask: number, status: "subtask" });
    runContext.branch.add([assistantMessage(said, [], entry)]);
    entries.push(entry);
  }
  await runContext.eventLog.append([...entries, noteEntry("subtask", { ...done })], runContext.billing.ops());
  runContext.committed();
  progress.at++;
  progress.done.push(done);
  return null;
}

/** Stop reasons that fail the subtask but do not end the turn. */
const undoneReasons: Partial<Record<StopReason, (steps: number) => string>> = {
  max_turns: (steps) => `not done within ${steps} steps`,
  max_tokens: () => "not done: the answer was cut off by its length",
};

/**
 * True if the subtask failed. The executor was instructed to begin a failure report with FAILED; a refused or truncated reply is a failure
 * too.
 */
function isFailure({ text, isRefused, stop_reason }: ReleasedReply): boolean {
  return isRefused || stop_reason === "refusal" || stop_reason === "max_tokens" || /^\s*FAILED\b/.test(text);
}

const planSchema = lazily(() =>
  readOwnSchema({
    type: "object",
    properties: {
      subtasks: {
        type: "array",
        items: {
          type: "object",
          properties: { title: { type: "string" }, task: { type: "string" } },
          required: ["title", "task"],
          additionalProperties: false,
        },
      },
    },
    required: ["subtasks"],
    additionalProperties: false,
  }),
);

function planTask(most: number): string {
  return `You plan the work of an assistant. You are given JSON: the conversation, the tools that the assistant has, and what was done already, \
if anything was. Make a plan for what the user asks for last: subtasks in the order in which they are to be done, each with a short title and \
with all that whoever does it has to know. At most ${most}; fewer are better, and none where the user can be answered at once. Where something \
has failed, plan another way for what is left, and nothing twice that is done.`;
}

function instruct({ title, task }: Subtask, { done }: Progress): string {
  const before = done.length === 0 ? "" : `Done so far, as JSON: ${JSON.stringify(done)}\n\n`;
  return `${before}Do this part of the work now, and no other: ${title}\n${task}\n\nUse tools where they help. Then say what came of it, for \
yourself; the user does not read it. If it cannot be done, begin with the word FAILED and say why.`;
}

function finish({ done }: Progress): string {
  return `The parts of the work are over. What came of them, as JSON: ${JSON.stringify(done)}\n\nAnswer the user now. Say what could not be done.`;
}
