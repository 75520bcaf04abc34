// Fields that providers add to messages and calls of the OpenAI protocol and require again in later requests.
// svc returns them only to the provider and model that sent them (decision 206):
// - `reasoning_content`: https://api-docs.deepseek.com/guides/thinking_mode and
//   https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model, which refuse a step with calls without it;
// - `reasoning_details`, and `reasoning` for its text:
//   https://openrouter.ai/docs/guides/best-practices/reasoning-tokens;
// - `thinking_blocks`: https://docs.litellm.ai/docs/reasoning_content;
// - `extra_content`: https://ai.google.dev/gemini-api/docs/thought-signatures, which refuses a call without its
//   signature.

/** A message field in which a provider returns readable reasoning. */
export type SpokenField = "reasoning_content" | "reasoning";

/** All such fields. */
export const spokenFields: readonly SpokenField[] = ["reasoning_content", "reasoning"];
/** All vendor fields of a message. */
export const messageFields: readonly string[] = [
  ...spokenFields,
  "reasoning_details",
  "thinking_blocks",
  "extra_content",
];
/** The vendor field of a call. */
export const callField = "extra_content";
/** Max characters of the vendor fields of a message, and of each of its calls. Longer fields are dropped. */
export const vendorCharsMax = 64 * 1024;

/** A client's vendor fields, each an object as JSON text. */
export interface ClientVendor {
  /** Fields of the message; null for none. */
  readonly message: string | null;
  /** Fields of its calls, each with the call's id. */
  readonly calls: readonly (readonly [id: string, json: string])[];
}
