/** How much a model reasons, from none to its maximum. */
export const thinkingLevels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** One of the levels. */
export type ThinkingLevel = (typeof thinkingLevels)[number];
