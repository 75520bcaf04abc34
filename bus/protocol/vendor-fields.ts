// Fields that providers add to the OpenAI protocol, in an assistant's message and its calls, and want back with them (decision 206):
// - `reasoning_content`: https://api-docs.deepseek.com/guides/thinking_mode and
//   https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model, which refuse a step with calls without it;
// - `reasoning_details`, and `reasoning` for its words: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens;
// - `thinking_blocks`: https://docs.litellm.ai/docs/reasoning_content;
// - `extra_content`: https://ai.google.dev/gemini-api/docs/thought-signatures, where a call without its signature is refused.

/** A field of a message in which a provider of the OpenAI protocol has what its model thought aloud. */
export type SpokenField = "reasoning_content" | "reasoning";

/** Those fields. */
export const spokenFields: readonly SpokenField[] = ["reasoning_content", "reasoning"];
/** All fields of a message. */
export const messageFields: readonly string[] = [
  ...spokenFields,
  "reasoning_details",
  "thinking_blocks",
  "extra_content",
];
/** The field of a call. */
export const callField = "extra_content";
/** Max characters of the vendor fields of a message, and of each of its calls. Longer fields are dropped. */
export const vendorCharsMax = 64 * 1024;

/** What a client has sent of such fields, each an object as JSON text. */
export interface ClientVendor {
  /** Of the message; null for none. */
  readonly message: string | null;
  /** Of its calls, each with its id. */
  readonly calls: readonly (readonly [id: string, json: string])[];
}
