/** Patterns of refusals by content filters of providers, each with a public source. */
const words = [
  // Azure: https://learn.microsoft.com/en-us/azure/ai-services/openai/concepts/content-filter
  /"content_filter"|ResponsibleAIPolicyViolation|content management policy/,
  // OpenAI: https://portkey.ai/error-library/safety-violation-error-10079
  /content_policy_violation|rejected as a result of our safety system/,
  // Anthropic: https://github.com/anthropics/claude-code/issues/6195
  /blocked by content filtering policy/i,
  // DeepSeek: https://github.com/deepseek-ai/awesome-deepseek-integration/issues/13
  /Content Exists Risk/i,
  // OpenRouter: https://openrouter.ai/docs/api-reference/errors
  /"flagged_input"|requires moderation/,
] as const;

/** True if the response is a refusal by a content filter. */
export function isFiltered(status: number, body: string): boolean {
  return status >= 400 && status < 500 && words.some((pattern) => pattern.test(body));
}
