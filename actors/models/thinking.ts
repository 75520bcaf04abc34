import { type ThinkingLevel, thinkingLevels } from "../../bus/protocol/thinking.ts";
import type { ModelRoute } from "../../manifests/registries.ts";

/** How hard a model is asked to think: in the words of models that are told an effort, and in tokens for those that take a budget. */
export interface Thinking {
  readonly level: ThinkingLevel;
  readonly budget_tokens: number;
}

/** What a level is in tokens (shapes, thinking levels). */
const budgets: Readonly<Record<ThinkingLevel, number>> = {
  off: 0,
  minimal: 128,
  low: 512,
  medium: 1_024,
  high: 2_048,
  xhigh: 8_192,
  max: 32_000,
};

/** A level with its budget, or a budget with the highest level that it reaches. Null asks for nothing: the model does as it does. */
export function thinkingOf(level: ThinkingLevel | null, budget: number | null): Thinking | null {
  if (level !== null) return { level, budget_tokens: budgets[level] };
  if (budget === null) return null;
  return {
    level: thinkingLevels.findLast((candidate) => budgets[candidate] <= budget) ?? "off",
    budget_tokens: budget,
  };
}

/** The levels that are known to make a difference on a route: every one at Anthropic; what nobody has said of others is not guessed. */
export function thinkingLevelsOf({ provider }: ModelRoute): readonly ThinkingLevel[] {
  return provider === "anthropic" ? thinkingLevels : [];
}
