import { breathe } from "../../../bus/env.ts";
import { type ContextMessage, contextMessage } from "../../log/message.ts";
import { type Compare, chooseSimilar } from "../context/semantic.ts";
import { similarities } from "../context/similar.ts";
import { likenesses } from "../model/likeness.ts";
import { modelStep, type StepOutcome } from "../model/model-step.ts";
import { countPrompt } from "../model/token-counts.ts";
import type { RunScope } from "../scope/scope.ts";
import { compactionDue, shortenAtOverflow } from "./compaction-rules.ts";
import { shownOf } from "./shown.ts";

/**
 * Calls the model with what the manifest's session strategy shows of the branch, which is compacted first where it is due. `nudge` comes
 * last and is not kept.
 */
export function branchStep(scope: RunScope, nudge: string | null): Promise<StepOutcome> {
  // The transcript of a member is no conversation that anybody comes back to.
  const due = (scope.isMute ? null : compactionDue(scope)) ?? choiceDue(scope);
  return due === null && !scope.plan.agent.precount ? step(scope, nudge) : stepAfter(due, scope, nudge);
}

async function stepAfter(due: Promise<void> | null, scope: RunScope, nudge: string | null): Promise<StepOutcome> {
  await due;
  if (scope.plan.agent.precount && !scope.cancellation.cancelled) await precount(scope, nudge);
  return scope.cancellation.cancelled ? { kind: "stopped", partial: "" } : step(scope, nudge);
}

/** Counts what the next call is sent: that is set aside for it, and decides whether it may be made. */
async function precount(scope: RunScope, nudge: string | null): Promise<void> {
  const shown = shownOf(scope);
  const nudged = nudge === null ? shown : [...shown, contextMessage({ role: "user", content: nudge })];
  scope.promptTokens = await scope.cancellation.orStopped(countPrompt(scope, nudged));
}

function step(scope: RunScope, nudge: string | null): Promise<StepOutcome> {
  const { compaction_enabled } = scope.plan.agent.context;
  return modelStep(scope, shownOf(scope), nudge, compaction_enabled ? mendOverflow : null);
}

/** What is shown before the turn is chosen at its first call. */
function choiceDue(scope: RunScope): Promise<void> | null {
  const { session } = scope.plan.agent;
  // After a compaction the summary and what follows are shown.
  if (session.kind !== "semantic" || scope.chosen !== null || scope.summed !== null) return null;
  return choose(scope, session.messages);
}

async function choose(scope: RunScope, count: number): Promise<void> {
  const { plan, deps } = scope;
  const pause = () => breathe(deps.env);
  const compare: Compare = async (messages, query) =>
    (await likenesses(scope, messages, query, pause)) ?? similarities(messages, query, pause);
  scope.chosen = await chooseSimilar(plan.branch, plan.turnStart, count, compare);
}

async function mendOverflow(scope: RunScope): Promise<readonly ContextMessage[] | null> {
  if (!(await shortenAtOverflow(scope))) return null;
  if (scope.promptTokens !== null) await precount(scope, null);
  return shownOf(scope);
}
