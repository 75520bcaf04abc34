import type { ChatCall, Family, Json, Refusal } from "./family.ts";
import { currentTurn, proofOf } from "./rules.ts";

/** The signature that the API takes for any call: https://ai.google.dev/gemini-api/docs/thought-signatures */
export const anySignature = "skip_thought_signature_validator";

/** The signature that the API sends with a call, and requires with it later. */
export function signedBy(name: string, args: string): Json {
  return { extra_content: { google: { thought_signature: proofOf(name + args) } } };
}

/** The OpenAI-compatible endpoint of Gemini. */
export const gemini: Family = {
  routes: { gemini: { provider: "google", model: "gemini-3-pro-preview" } },
  refusalOf(body) {
    // https://ai.google.dev/gemini-api/docs/thought-signatures: the first call of each step of the current turn needs
    // its signature, in `extra_content.google.thought_signature` on the compatible endpoint.
    for (const [at, { tool_calls }] of currentTurn(body).entries()) {
      const [first, ...others] = tool_calls ?? [];
      if (first === undefined) continue;
      const signature = signatureOf(first);
      if (signature === undefined) return refusal(missing(first, at));
      const wrong = [first, ...others].find((call) => !isSigned(call));
      if (wrong !== undefined) return refusal("Thought signature is not valid.");
    }
    return null;
  },
};

function signatureOf({ extra_content }: ChatCall): unknown {
  const { google } = Object(extra_content) as { google?: { thought_signature?: unknown } };
  return google?.thought_signature;
}

function isSigned(call: ChatCall): boolean {
  const signature = signatureOf(call);
  const { name, arguments: args } = call.function;
  return signature === undefined || signature === anySignature || signature === proofOf(name + args);
}

// The text:
// https://discuss.ai.google.dev/t/openai-api-compatibility-broken-due-to-thought-signature-on-gemini-3-pro-preview/109823
function missing({ function: { name } }: ChatCall, at: number): string {
  return `Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call \`default_api:${name}\` , position ${at + 1}.`;
}

function refusal(message: string): Refusal {
  return { status: 400, body: [{ error: { code: 400, message, status: "INVALID_ARGUMENT" } }] };
}
