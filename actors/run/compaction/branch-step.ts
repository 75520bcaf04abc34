import { breathe } from "../../../bus/env.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import type { RunContext } from "../context/run-context.ts";
import { likenesses } from "../model/likeness.ts";
import { modelStep, type StepOutcome } from "../model/model-step.ts";
import { suggestionDue } from "../model/skill-suggestion.ts";
import { countPrompt } from "../model/token-counts.ts";
import { refuseTooManyTools, toolChoiceDue } from "../model/tool-choice.ts";
import { type Compare, chooseSimilar } from "../prompt/semantic.ts";
import { similarities } from "../prompt/similar.ts";
import { compactionDue, shortenAtOverflow } from "./compaction-rules.ts";

/**
 * Calls the model with the messages that the session strategy selects. Compacts the branch first if necessary. `ephemeralInstruction` is
 * the last message and is not logged.
 */
export function branchStep(runContext: RunContext, ephemeralInstruction: string | null): Promise<StepOutcome> {
  const choosing = both(toolChoiceDue(runContext), suggestionDue(runContext));
  return choosing === null
    ? dueStep(runContext, ephemeralInstruction)
    : stepAfterChoice(choosing, runContext, ephemeralInstruction);
}

function both(one: Promise<void> | null, other: Promise<void> | null): Promise<void> | null {
  return one === null || other === null ? (one ?? other) : Promise.all([one, other]).then(() => {});
}

async function stepAfterChoice(
  choosing: Promise<void>,
  runContext: RunContext,
  ephemeralInstruction: string | null,
): Promise<StepOutcome> {
  await choosing;
  return runContext.cancellation.cancelled
    ? { kind: "stopped", partial: "" }
    : dueStep(runContext, ephemeralInstruction);
}

function dueStep(runContext: RunContext, ephemeralInstruction: string | null): Promise<StepOutcome> {
  // A sub-agent's transcript has no later turns, so it is not compacted.
  const { kind } = runContext.spec.agent.session;
  const mayCompact = (kind === "summarizing" || kind === "compacting") && !runContext.stream.isMute;
  const due = (mayCompact ? compactionDue(runContext) : null) ?? choiceDue(runContext);
  return due === null && !runContext.spec.agent.precount
    ? step(runContext, ephemeralInstruction)
    : stepAfter(due, runContext, ephemeralInstruction);
}

async function stepAfter(
  due: Promise<void> | null,
  runContext: RunContext,
  ephemeralInstruction: string | null,
): Promise<StepOutcome> {
  await due;
  if (runContext.spec.agent.precount && !runContext.cancellation.cancelled)
    await precount(runContext, ephemeralInstruction);
  return runContext.cancellation.cancelled ? { kind: "stopped", partial: "" } : step(runContext, ephemeralInstruction);
}

/** Counts the tokens of the next prompt. The count is reserved for the call and checked against the limits. */
async function precount(runContext: RunContext, ephemeralInstruction: string | null): Promise<void> {
  const shown = runContext.branch.shownBy(runContext.spec.agent);
  const instructed =
    ephemeralInstruction === null ? shown : [...shown, contextMessage({ role: "user", content: ephemeralInstruction })];
  runContext.step.promptTokens = await runContext.cancellation.orStopped(countPrompt(runContext, instructed));
}

function step(runContext: RunContext, ephemeralInstruction: string | null): Promise<StepOutcome> {
  refuseTooManyTools(runContext);
  const { compaction_enabled } = runContext.spec.agent.context;
  return modelStep(
    runContext,
    runContext.branch.shownBy(runContext.spec.agent),
    ephemeralInstruction,
    compaction_enabled ? mendOverflow : null,
  );
}

/** The messages before the turn are selected at its first call. */
function choiceDue(runContext: RunContext): Promise<void> | null {
  const { session } = runContext.spec.agent;
  // After a compaction, the summary and all messages after it are shown.
  if (session.kind !== "semantic" || runContext.branch.chosen !== null || runContext.branch.summed !== null)
    return null;
  return choose(runContext, session.messages);
}

async function choose(runContext: RunContext, count: number): Promise<void> {
  const { deps } = runContext;
  const pause = () => breathe(deps.env);
  const compare: Compare = async (messages, query) =>
    (await likenesses(runContext, messages, query, pause)) ?? similarities(messages, query, pause);
  runContext.branch.chosen = await chooseSimilar(
    runContext.branch.messages,
    runContext.branch.turnStart,
    count,
    compare,
  );
}

async function mendOverflow(runContext: RunContext): Promise<readonly ContextMessage[] | null> {
  if (!(await shortenAtOverflow(runContext))) return null;
  if (runContext.step.promptTokens !== null) await precount(runContext, null);
  return runContext.branch.shownBy(runContext.spec.agent);
}
