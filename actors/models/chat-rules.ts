import { createHash } from "node:crypto";
import { messageFields } from "../../bus/protocol/vendor-fields.ts";
import type { ModelFailure } from "./provider.ts";

/**
 * The form of call ids: Mistral requires nine letters or digits (https://mistralai.github.io/mistral-common/usage/tools/),
 * OpenAI allows 40 characters (https://github.com/agno-agi/agno/issues/5382).
 */
export type CallIdForm = "any" | "forty" | "nine";

/** Restrictions of a provider on messages that others accept. */
export interface ProviderRules {
  readonly callIds: CallIdForm;
  /** True if a user message directly after a tool result is refused: https://github.com/datapizza-labs/datapizza-ai/issues/98 */
  readonly bridgesResults: boolean;
  /** False if a user message with a name is refused: https://docs.mistral.ai/api/ has names only for tools. */
  readonly namesUsers: boolean;
  /** True if the first call of a step must be signed: https://ai.google.dev/gemini-api/docs/thought-signatures */
  readonly signsCalls: boolean;
}

/** The rules for messages to one model. */
export interface ChatRules extends ProviderRules {
  /** The provider and model whose vendor fields are sent; empty for none. */
  readonly by: string;
  /** Fields that the model refused. */
  readonly without: ReadonlySet<string>;
  /** True if a step with calls needs a thought, even an empty one if the original came from another model. */
  readonly thinksBeforeCalls: boolean;
}

/** The rules of most providers. */
export const commonRules: ProviderRules = {
  callIds: "any",
  bridgesResults: false,
  namesUsers: true,
  signsCalls: false,
};

/** Returns the initial rules for a model, known as `by`. */
export function rulesFor(provider: ProviderRules, by: string): ChatRules {
  // Gemini 2 does not sign calls: https://ai.google.dev/gemini-api/docs/thought-signatures
  const signsCalls = provider.signsCalls && !/gemini-[12]\b/.test(by);
  return { ...provider, signsCalls, by, without: new Set(), thinksBeforeCalls: false };
}

/**
 * Returns the rules after a refusal; null if the refusal is about something else. `lasting` rules apply to all later calls of
 * the model.
 */
export function rulesAfter(
  rules: ChatRules,
  { status, refusal: words }: Pick<ModelFailure, "status" | "refusal">,
): { readonly rules: ChatRules; readonly lasting: boolean } | null {
  const lasting = (changed: Partial<ChatRules>) => ({ rules: { ...rules, ...changed }, lasting: true });
  // Self-hosted servers may use Mistral's templates: https://github.com/jundot/omlx/pull/1997
  if (rules.callIds !== "nine" && /code\W+3280\b|length of 9\b/.test(words)) return lasting({ callIds: "nine" });
  if (status < 400 || status >= 500) return null;
  if (rules.callIds === "any" && /\bid\b.*string too long.*maximum length 40\b/.test(words))
    return lasting({ callIds: "forty" });
  if (!rules.bridgesResults && /role \W*user\W* after role \W*tool/i.test(words))
    return lasting({ bridgesResults: true });
  if (!rules.signsCalls && /missing a `?thought_signature/i.test(words)) return lasting({ signsCalls: true });
  if (!rules.thinksBeforeCalls && /reasoning_content/.test(words) && /must be passed back|missing/i.test(words))
    return lasting({ thinksBeforeCalls: true });
  if (rules.by === "") return null;
  // The signature was made by another account, or by a model that has been replaced.
  if (/signature/i.test(words) && /invalid|not valid/i.test(words))
    return { rules: { ...rules, by: "" }, lasting: false };
  const field = messageFields.find((name) => !rules.without.has(name) && isRefused(name, words));
  return field === undefined ? null : lasting({ without: new Set([...rules.without, field]) });
}

const refusing =
  /unsupported|not supported|unknown|unexpected|unrecognized|extra|additional|not permitted|not allowed|forbidden/i;

/** True if the text refuses a field of a message by its exact name. */
function isRefused(field: string, words: string): boolean {
  return new RegExp(`(?<![\\w-])${field}(?![\\w-])`).test(words) && refusing.test(words.replaceAll(field, ""));
}

/** Returns an id in the form that a provider accepts; equal for a call and its result. */
export function callIdOnWire(id: string, form: CallIdForm): string {
  if (form === "any" || (form === "forty" && id.length <= 40)) return id;
  if (form === "nine" && /^[a-zA-Z0-9]{9}$/.test(id)) return id;
  const digest = createHash("sha256").update(id).digest();
  if (form === "forty") return `call_${digest.toString("hex", 0, 16)}`;
  return [...digest.subarray(0, 9)].map((byte) => letters[byte % letters.length]).join("");
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
