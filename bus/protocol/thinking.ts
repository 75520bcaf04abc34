/** How hard a model is to think, from not at all to as hard as it can. */
export const thinkingLevels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** One of the levels. */
export type ThinkingLevel = (typeof thinkingLevels)[number];
