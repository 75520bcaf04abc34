import { createHash } from "node:crypto";
import { messageFields } from "../../bus/protocol/vendor-fields.ts";
import type { ModelFailure } from "./provider.ts";

/**
 * How the ids of calls have to look: Mistral takes nine letters or digits
 * (https://mistralai.github.io/mistral-common/usage/tools/), OpenAI 40 characters (https://github.com/agno-agi/agno/issues/5382).
 */
export type CallIdForm = "any" | "forty" | "nine";

/** What a provider refuses of a conversation that others take. */
export interface ProviderRules {
  readonly callIds: CallIdForm;
  /** A user's message right after a tool result is refused: https://github.com/datapizza-labs/datapizza-ai/issues/98 */
  readonly bridgesResults: boolean;
  /** A user's message with a name is refused: https://docs.mistral.ai/api/ knows one of tools alone. */
  readonly namesUsers: boolean;
  /** The first call of a step has to be signed: https://ai.google.dev/gemini-api/docs/thought-signatures */
  readonly signsCalls: boolean;
}

/** How a conversation is sent to one model. */
export interface ChatRules extends ProviderRules {
  /** The provider and model whose own fields are sent; "" for none. */
  readonly by: string;
  /** Fields that it has refused. */
  readonly without: ReadonlySet<string>;
  /** A step with calls has to have its thoughts, though they were those of another model, and are lost. */
  readonly thinksBeforeCalls: boolean;
}

/** The rules of most providers. */
export const commonRules: ProviderRules = {
  callIds: "any",
  bridgesResults: false,
  namesUsers: true,
  signsCalls: false,
};

/** The rules to begin with for a model, known as `by`. */
export function rulesFor(provider: ProviderRules, by: string): ChatRules {
  // Gemini 2 signs no calls: https://ai.google.dev/gemini-api/docs/thought-signatures
  const signsCalls = provider.signsCalls && !/gemini-[12]\b/.test(by);
  return { ...provider, signsCalls, by, without: new Set(), thinksBeforeCalls: false };
}

/** Changes the rules by a refusal; null if the refusal is about something else. `lasting` rules hold for all later calls of the model. */
export function rulesAfter(
  rules: ChatRules,
  { status, refusal: words }: Pick<ModelFailure, "status" | "refusal">,
): { readonly rules: ChatRules; readonly lasting: boolean } | null {
  const lasting = (changed: Partial<ChatRules>) => ({ rules: { ...rules, ...changed }, lasting: true });
  // The words of servers of one's own, which may have Mistral's templates: https://github.com/jundot/omlx/pull/1997
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
  // The proof of another account, or of a model that was replaced.
  if (/signature/i.test(words) && /invalid|not valid/i.test(words))
    return { rules: { ...rules, by: "" }, lasting: false };
  const field = messageFields.find((name) => !rules.without.has(name) && isRefused(name, words));
  return field === undefined ? null : lasting({ without: new Set([...rules.without, field]) });
}

const refusing =
  /unsupported|not supported|unknown|unexpected|unrecognized|extra|additional|not permitted|not allowed|forbidden/i;

/** Whether words refuse a field of a message: the name alone, and not what begins or ends with it. */
function isRefused(field: string, words: string): boolean {
  return new RegExp(`(?<![\\w-])${field}(?![\\w-])`).test(words) && refusing.test(words.replaceAll(field, ""));
}

/** An id as a provider takes it: the same for a call and for its result. */
export function callIdOnWire(id: string, form: CallIdForm): string {
  if (form === "any" || (form === "forty" && id.length <= 40)) return id;
  if (form === "nine" && /^[a-zA-Z0-9]{9}$/.test(id)) return id;
  const digest = createHash("sha256").update(id).digest();
  if (form === "forty") return `call_${digest.toString("hex", 0, 16)}`;
  return [...digest.subarray(0, 9)].map((byte) => letters[byte % letters.length]).join("");
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
