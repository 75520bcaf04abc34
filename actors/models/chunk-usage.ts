import type { TokenCount } from "../../bus/protocol/model-reply.ts";

// Token counts of a reply in the OpenAI protocol, under all the names that providers use:
// - `prompt_tokens_details.cached_tokens` and `completion_tokens_details.reasoning_tokens`:
//   https://platform.openai.com/docs/api-reference/chat/object;
// - `prompt_tokens_details.cache_write_tokens`: https://openrouter.ai/docs/use-cases/usage-accounting;
// - `cache_read_input_tokens`, `cache_creation_input_tokens`, `cache_creation_tokens`: https://docs.litellm.ai/docs/completion/prompt_caching;
// - `prompt_cache_hit_tokens`: https://api-docs.deepseek.com/guides/kv_cache;
// - `input_tokens`, `output_tokens`: https://platform.openai.com/docs/api-reference/responses/object, which some providers use here too.

/** A usage report. All fields are unverified. */
export interface ChunkUsage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly total_tokens?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly prompt_tokens_details?: InputDetails | null;
  readonly input_tokens_details?: InputDetails | null;
  readonly completion_tokens_details?: OutputDetails | null;
  readonly output_tokens_details?: OutputDetails | null;
  readonly cache_read_input_tokens?: number;
  readonly cache_creation_input_tokens?: number;
  readonly prompt_cache_hit_tokens?: number;
}

interface InputDetails {
  readonly cached_tokens?: number;
  readonly cache_write_tokens?: number;
  readonly cache_creation_tokens?: number;
}

interface OutputDetails {
  readonly reasoning_tokens?: number;
}

const figures = ["prompt", "completion", "total", "cacheRead", "cacheWrite", "reasoning"] as const;

/** The figures of a report; null for a missing one. */
export type UsageFigures = Readonly<Record<(typeof figures)[number], number | null>>;

/** Merges a report into an earlier one of the same reply. A zero does not replace an earlier figure. */
export function usageFigures(usage: ChunkUsage, before: UsageFigures | null): UsageFigures {
  const ofInput = usage.prompt_tokens_details ?? usage.input_tokens_details;
  const ofOutput = usage.completion_tokens_details ?? usage.output_tokens_details;
  const now: UsageFigures = {
    prompt: first(usage.prompt_tokens, usage.input_tokens),
    completion: first(usage.completion_tokens, usage.output_tokens),
    total: first(usage.total_tokens),
    cacheRead: first(ofInput?.cached_tokens, usage.cache_read_input_tokens, usage.prompt_cache_hit_tokens),
    cacheWrite: first(ofInput?.cache_write_tokens, ofInput?.cache_creation_tokens, usage.cache_creation_input_tokens),
    reasoning: first(ofOutput?.reasoning_tokens),
  };
  if (before === null) return now;
  return Object.fromEntries(
    figures.map((name) => [name, now[name] === 0 ? (before[name] ?? 0) : now[name]]),
  ) as UsageFigures;
}

/**
 * Converts the figures: input excludes cached tokens, output includes reasoning. Null if input or output is unreadable, or all
 * are zero, which no real call has.
 */
export function tokenCount({ prompt, completion, total, reasoning, ...cache }: UsageFigures): TokenCount | null {
  if (prompt === null) return null;
  const { cacheRead, cacheWrite } = { cacheRead: cache.cacheRead ?? 0, cacheWrite: cache.cacheWrite ?? 0 };
  const cached = cacheRead + cacheWrite;
  // prompt_tokens includes cached tokens, unless it is smaller than those (decision 209).
  const input = cached > prompt ? prompt : prompt - cached;
  // xAI and Google bill reasoning that completion_tokens omits; the total includes it.
  const output = Math.max(completion ?? 0, (total ?? 0) - input - cached);
  if (output === 0 && (completion === null || input + cached === 0)) return null;
  return { input, output, cacheRead, cacheWrite, ...(reasoning ? { reasoning } : {}) };
}

/** Returns a provider's count; null for any other value. */
export function count(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Returns the first positive count, otherwise the first count. */
function first(...values: readonly unknown[]): number | null {
  const counts = values.map(count).filter((value) => value !== null);
  return counts.find((value) => value > 0) ?? counts[0] ?? null;
}
