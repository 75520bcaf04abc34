import { SvcError } from "../../../bus/errors.ts";
import type { ControlDecision } from "../../../governance/controls/control.ts";
import { readOwnSchema } from "../../../manifests/answer-schema.ts";
import { digestJson } from "../../../manifests/canonical-json.ts";
import type { DecisionRoute, ModelRoute } from "../../../manifests/registries.ts";
import { contextMessage } from "../../log/message.ts";
import type { DecisionAnswer } from "../../models/decision-reader.ts";
import { type DecisionAsked, ModelFailure } from "../../models/provider.ts";
import { Cancellation } from "../../runtime/cancellation.ts";
import { AskedOnce, type Decided } from "../context/decisions.ts";
import type { RunContext } from "../context/run-context.ts";
import { similarities } from "../prompt/similar.ts";
import { LimitReached } from "./metered-call.ts";
import { callQuietly } from "./quiet-call.ts";
import { askAside } from "./side-question.ts";

// A decider chooses between options. It is a model made for decisions, which returns a confidence, a chat model, which returns none, or a
// comparison of words. Its usage counts in the run. The caller has an alternative for a failed, late or uncertain decision.

/** A question for a decider, and its purpose. */
export interface DecisionQuestion extends DecisionAsked {
  readonly purpose:
    | "router"
    | "escalation"
    | "reflect"
    | "tools_retrieval"
    | "skill_suggestion"
    | ControlDecision["purpose"];
}

/** Time limit of a decider. */
const deadlineMs = 20_000;
/** Max characters of the newest user message, and of the message before it. */
const messageMax = 4_000;
const beforeMax = 1_000;
/** A decision model generates no text. */
const outputTokensMax = 1;

/**
 * Returns the decision of the agent's decider, or `unsure` below `leastConfidence`, which is spec.decider.min_confidence unless given. The
 * agent must have a decider.
 */
export async function decide(
  runContext: RunContext,
  question: DecisionQuestion,
  leastConfidence?: number,
): Promise<Decided | { kind: "unsure" }> {
  const { decider } = runContext.spec.agent;
  if (decider === null) throw new Error(`${runContext.spec.agent.name} has no decider`);
  const { route, min_confidence } = decider;
  runContext.run.decisions ??= new AskedOnce();
  const key = digestJson({ ...question, decider: route.id });
  const decided = await runContext.run.decisions.once(key, () => ask(runContext, route, question));
  const isUnsure =
    decided.kind === "decided" &&
    decided.confidence !== null &&
    decided.confidence < (leastConfidence ?? min_confidence);
  return isUnsure ? { kind: "unsure" } : decided;
}

/** The input of a decision: the newest user message, and the one before it. */
export function stateOf({
  branch: { messages: branch },
  step: { ephemeralInstruction },
}: RunContext): Record<string, string> {
  const at = branch.findLastIndex(({ role }) => role === "user");
  const before = branch
    .slice(0, Math.max(0, at))
    .findLast(({ role, content }) => (role === "user" || role === "assistant") && content !== "");
  return {
    message: cut(branch[at]?.content ?? "", messageMax),
    ...(before !== undefined && { before: cut(before.content, beforeMax) }),
    ...(ephemeralInstruction !== null && { request: cut(ephemeralInstruction, beforeMax) }),
  };
}

/** Cuts a text to at most `most` UTF-16 code units without half a surrogate pair. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : text.slice(0, most).toWellFormed();
}

async function ask(runContext: RunContext, { id, route }: DecisionRoute, question: DecisionQuestion): Promise<Decided> {
  const { purpose, options } = question;
  const answer = await answerOf(runContext, id, route, question);
  const isValid = answer !== null && answer !== "invalid" && Object.hasOwn(options, answer.choice);
  const outcome = isValid ? "ok" : answer === null ? "error" : "invalid";
  runContext.metrics.count("svc_decisions_total", { decider: id, purpose, outcome });
  return isValid ? { kind: "decided", ...answer } : { kind: "error" };
}

/** Null if the decider failed. */
async function answerOf(
  runContext: RunContext,
  id: string,
  route: ModelRoute | null,
  question: DecisionQuestion,
): Promise<DecisionAnswer | "invalid" | null> {
  if (route === null) return compareWords(question);
  const { deps, spec } = runContext;
  const until = new Cancellation();
  const stopListening = runContext.cancellation.onCancel(() => until.cancel());
  const timer = deps.env.timer(deadlineMs, () => until.cancel());
  try {
    return await (route.decides ? askDecider : askChat)(runContext, route, question, until);
  } catch (error) {
    const isKnown = error instanceof ModelFailure || error instanceof LimitReached || error instanceof SvcError;
    if (!isKnown) throw error;
    deps.log.warn({ run_id: spec.run_id, decider: id, cause: error.message }, "a decider made no decision");
    return null;
  } finally {
    timer.cancel();
    stopListening();
  }
}

async function askDecider(
  runContext: RunContext,
  route: ModelRoute,
  { instructions, state, options }: DecisionQuestion,
  until: Cancellation,
): Promise<DecisionAnswer | "invalid"> {
  const decision = { instructions, state, options };
  const text = await callQuietly(runContext, {
    routes: [route],
    task: instructions,
    // The call is estimated by this message; the provider gets `decision` instead.
    shown: [contextMessage({ role: "user", content: JSON.stringify(decision) })],
    temperature: 0,
    max_tokens: outputTokensMax,
    aside: true,
    kind: "decider",
    decision,
    until,
  });
  return text === "" ? "invalid" : (JSON.parse(text) as DecisionAnswer);
}

async function askChat(
  runContext: RunContext,
  route: ModelRoute,
  { instructions, state, options }: DecisionQuestion,
  until: Cancellation,
): Promise<DecisionAnswer | "invalid" | null> {
  const outcome = await askAside<{ choice: string }>(runContext, {
    routes: [route],
    task: `${instructions} Name the one option that fits best.`,
    given: { ...state, options },
    answer: readOwnSchema({
      type: "object",
      properties: { choice: { enum: Object.keys(options) } },
      required: ["choice"],
      additionalProperties: false,
    }),
    kind: "decider",
    until,
  });
  if (outcome.kind === "unusable") return "invalid";
  if (outcome.kind === "failure") throw outcome.failure;
  return outcome.kind === "answer" ? { ...outcome.value, confidence: null, probabilities: null } : null;
}

/** Chooses the option that shares most words with the message. The confidence is the relative distance to the second best. */
async function compareWords({ state, options }: DecisionQuestion): Promise<DecisionAnswer | null> {
  const names = Object.keys(options);
  const described = names.map((name) =>
    contextMessage({ role: "user", content: `${name.replaceAll(/[-_.]/g, " ")} ${options[name] ?? ""}` }),
  );
  const scores = await similarities(described, String(state.message ?? ""), async () => {});
  const [best = 0, next = 0] = scores.toSorted((a, b) => b - a);
  const choice = names[scores.indexOf(best)];
  if (choice === undefined) return null;
  return { choice, confidence: best === 0 ? 0 : (best - next) / best, probabilities: null };
}
