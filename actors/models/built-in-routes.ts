import type { ModelPrice, ModelRoute } from "../../manifests/registries.ts";

// The built-in model routes. Figures as of November 2026, USD per million tokens:
// - routes, wire models and modalities, and the context windows of workers_ai: the specification of this service;
// - gpt-4.1 and gpt-4.1-mini: OpenAI, "Pricing", standard tier, and "Models"; cached input is the rate of cache reads, and cache
//   writes cost as much as input;
// - claude-*: Anthropic, "Models & pricing"; cache writes have the five-minute rate.
// Unknown figures are not guessed: no price, no output limit, a window of 128,000 tokens, text only, the provider's parameters.
// Operators set them with SVC_MODEL_ROUTES; a manifest sets its price with spec.model.price.

const unknownWindow = 128_000;
const million = 1_000_000;
const quarterMillion = 262_144;

/** Figures of a route for which none are known. */
export const unknownFigures: Omit<ModelRoute, "id" | "provider" | "model"> = {
  modalities: ["text"],
  context_window: unknownWindow,
  max_output_tokens: null,
  tools_max: null,
  parameters: null,
  price: null,
};

const sonnetPrice: ModelPrice = { input: 2, output: 10, cache_read: 0.2, cache_write: 2.5 };
const opusPrice: ModelPrice = { input: 5, output: 25, cache_read: 0.5, cache_write: 6.25 };

/** The built-in routes. If several can be called, the first is the default model. */
export const builtInRoutes: readonly ModelRoute[] = [
  anthropic("claude-sonnet", "claude-sonnet-5", million, 128_000, sonnetPrice),
  anthropic("claude-opus", "claude-opus-5", million, 128_000, opusPrice),
  anthropic("claude-haiku", "claude-haiku-4-5", 200_000, 64_000, null),
  anthropic("claude-fable", "claude-fable-5", million, 128_000, null),
  openai("gpt-4.1", { input: 2, output: 8, cache_read: 0.5, cache_write: 2 }),
  openai("gpt-4.1-mini", { input: 0.4, output: 1.6, cache_read: 0.1, cache_write: 0.4 }),
  workersAi("glm-5.3-cf", "@cf/zai-org/glm-5.3", million),
  workersAi("glm-5.3-flash-cf", "@cf/zai-org/glm-5.3-flash", million, "image"),
  workersAi("deepseek-v4-pro-cf", "@cf/deepseek-ai/deepseek-v4-pro-0813", million),
  workersAi("deepseek-v4-flash-cf", "@cf/deepseek-ai/deepseek-v4-flash-0731", million),
  workersAi("qwen3.8-27b-cf", "@cf/qwen/qwen3.8-27b", quarterMillion, "image"),
  workersAi("kimi-k2.7-code-cf", "@cf/moonshotai/kimi-k2.7-code", quarterMillion, "image"),
  workersAi("kimi-k2-cf", "@cf/moonshotai/kimi-k2.6", quarterMillion, "image"),
  workersAi("gpt-oss-120b-cf", "@cf/openai/gpt-oss-120b", unknownWindow),
  workersAi("gpt-oss-20b-cf", "@cf/openai/gpt-oss-20b", unknownWindow),
  workersAi("glm-flash-cf", "@cf/zai-org/glm-4.7-flash", unknownWindow),
  // Ids of earlier versions.
  workersAi("llama-3-pro", "@cf/zai-org/glm-5.3", million),
  workersAi("llama-3-fast", "@cf/zai-org/glm-5.3-flash", million, "image"),
];

/** The offline model. It is free, so manifests with a cost limit can use it. */
export const demoRoute: ModelRoute = {
  id: "demo",
  provider: "demo",
  model: "demo",
  modalities: ["text"],
  context_window: unknownWindow,
  max_output_tokens: unknownWindow,
  tools_max: null,
  parameters: null,
  price: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
};

function anthropic(
  id: string,
  model: string,
  context_window: number,
  max_output_tokens: number,
  price: ModelPrice | null,
): ModelRoute {
  return { ...unknownFigures, id, provider: "anthropic", model, context_window, max_output_tokens, price };
}

function openai(id: string, price: ModelPrice): ModelRoute {
  const figures = { context_window: 1_047_576, max_output_tokens: 32_768 };
  return { ...unknownFigures, id, provider: "openai", model: id, ...figures, price };
}

function workersAi(id: string, model: string, context_window: number, ...also: "image"[]): ModelRoute {
  return { ...unknownFigures, id, provider: "workers_ai", model, modalities: ["text", ...also], context_window };
}
