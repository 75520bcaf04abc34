import { type ThinkingLevel, thinkingLevels } from "../../bus/protocol/thinking.ts";
import type { ModelRoute } from "../../manifests/registries.ts";

/** How much a model should think: as a level for models with an effort, and in tokens for models with a budget. */
export interface Thinking {
  readonly level: ThinkingLevel;
  readonly budget_tokens: number;
}

/** The budget of each level (shapes, thinking levels). */
const budgets: Readonly<Record<ThinkingLevel, number>> = {
  off: 0,
  minimal: 128,
  low: 512,
  medium: 1_024,
  high: 2_048,
  xhigh: 8_192,
  max: 32_000,
};

/** Returns a level with its budget, or a budget with the highest level that it covers. Null for the model's default. */
export function thinkingOf(level: ThinkingLevel | null, budget: number | null): Thinking | null {
  if (level !== null) return { level, budget_tokens: budgets[level] };
  if (budget === null) return null;
  return {
    level: thinkingLevels.findLast((candidate) => budgets[candidate] <= budget) ?? "off",
    budget_tokens: budget,
  };
}

/** Returns the levels that are known to have an effect on a route: all at Anthropic; unknown elsewhere. */
export function thinkingLevelsOf({ provider }: ModelRoute): readonly ThinkingLevel[] {
  return provider === "anthropic" ? thinkingLevels : [];
}
