import assert from "node:assert/strict";
import { test } from "node:test";
import { isOverflow } from "../../../actors/models/overflow.ts";

/** The answer of each provider to a prompt that is too long, with its public source. */
const refusals: readonly (readonly [string, number, string])[] = [
  ["OpenAI", 400, '{"error":{"message":"Too long.","code":"context_length_exceeded"}}'],
  ["Anthropic", 400, "prompt is too long: 215692 tokens > 200000 maximum"],
  ["llama.cpp", 400, "request (124071 tokens) exceeds the available context size (123904 tokens), try increasing it"],
  ["Gemini", 400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."],
  [
    "OpenRouter",
    400,
    "This endpoint's maximum context length is 1048756 tokens. However, you requested about 1087438 tokens",
  ],
  ["xAI", 400, "This model's maximum prompt length is 131072 but the request contains 136973 tokens."],
  [
    "Together",
    422,
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 80125 `inputs` tokens and 4096 `max_new_tokens`",
  ],
  ["Together's chat", 422, "The input (516368 tokens) is longer than the model's context length (262144 tokens)."],
  [
    "LM Studio",
    400,
    '{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096)."}',
  ],
  ["LM Studio's engine", 400, "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"],
  [
    "LM Studio 0.3",
    400,
    "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
  ],
  ["Ollama", 400, "prompt too long; exceeded max context length by 100918 tokens"],
  ["Moonshot", 400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"],
  ["Zhipu", 400, '{"error":{"code":"1261","message":"Prompt exceeds max length"}}'],
  ["Zhipu's GLM", 400, "Request 182387 input tokens exceeds the model's maximum context length 202750"],
  ["DashScope", 400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]"],
  ["MiniMax", 400, "invalid params, context window exceeds limit (2013)"],
  [
    "Copilot",
    400,
    '{"error":{"message":"prompt token count of 138898 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}',
  ],
];

for (const [provider, status, body] of refusals)
  test(`${provider} says that a prompt is too long`, () => {
    assert.equal(isOverflow(status, body), true);
    assert.equal(isOverflow(429, body), false, "the words of a rate limit are another thing");
  });

for (const body of [
  "The tool is too long a name.",
  "Rate limit reached: Limit 6000, Requested 14810, please reduce your message size and try again.",
  "max_tokens exceeds the limit of 8192",
  "max_completion_tokens must be less than or equal to 40960, the maximum value is less than the context_window for this model",
  "temperature should be in the range of [0, 2]",
])
  test(`${JSON.stringify(body.slice(0, 40))} is another refusal`, () => {
    assert.equal(isOverflow(400, body), false);
  });
