/**
 * Patterns of refusals because the prompt exceeds the context window, each with a public source. There is no common error code;
 * the status is 400 or 422.
 */
const words = [
  // OpenAI: https://platform.openai.com/docs/guides/error-codes
  /context_length_exceeded/,
  // Anthropic: https://github.com/anthropics/claude-code/issues/16644
  /prompt is too long/i,
  // OpenAI, vLLM, OpenRouter, GLM: https://github.com/foreveryh/claude-code-switch/issues/12
  /maximum context length/i,
  // OpenAI's Responses, llama.cpp: https://github.com/can1357/oh-my-pi/issues/3752
  /(?:exceeds?|exceeded|larger than|longer than) (?:the |this )?(?:model'?s? |available |maximum )*(?:context|input)[ -](?:window|length|size|limit)/i,
  // Amazon's and Anthropic's: https://github.com/darkresearch/mallory/blob/main/CONTEXT_LIMIT_BUG_ANALYSIS.md
  /input (?:is too long|length and `max_tokens` exceed)/i,
  // Gemini: https://ai.google.dev/gemini-api/docs/troubleshooting
  /input token count .{0,40}exceeds the maximum/i,
  // xAI: https://github.com/cline/cline/issues/3120
  /maximum prompt length is \d/i,
  // Together, status 422: https://github.com/BerriAI/litellm/issues/4934
  /`?inputs`? tokens \+ `?max_new_tokens`? must be <= ?\d/i,
  // LM Studio: https://github.com/anomalyco/opencode/issues/2259, https://github.com/anomalyco/opencode/issues/11141
  /initial prompt is greater than the context length/i,
  /cannot truncate prompt with n_keep/i,
  // LM Studio before 0.3.16: https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/237
  /trying to keep the first \d+ tokens when context/i,
  // Ollama: https://github.com/earendil-works/pi/blob/main/packages/ai/src/utils/overflow.ts
  /prompt too long; exceeded (?:max )?context length/i,
  // Moonshot: https://www.kimi.com/code/docs/en/kimi-code/error-reference.html
  /exceeded model token limit/i,
  // Zhipu, code 1261: https://github.com/zeroclaw-labs/zeroclaw/issues/4124
  /prompt exceeds max length/i,
  // DashScope: https://github.com/QwenLM/qwen-code/issues/98
  /range of input length should be \[/i,
  // MiniMax: https://github.com/MiniMax-AI/MiniMax-M2/issues/119
  /context window exceeds limit/i,
  // GitHub Copilot: https://github.com/microsoft/copilot-intellij-feedback/issues/94
  /model_max_prompt_tokens_exceeded|prompt token count of \d+ exceeds the limit/i,
] as const;

/** True if the response is such a refusal. */
export function isOverflow(status: number, body: string): boolean {
  if (status === 413) return true;
  return (status === 400 || status === 422) && words.some((pattern) => pattern.test(body));
}
