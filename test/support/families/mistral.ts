import type { ChatBody, Family, Refusal } from "./family.ts";
import { callsOf, saysNothing, unpairedCall } from "./rules.ts";

/** Mistral's own API, and a self-hosted server that follows its rules. */
export const mistral: Family = {
  routes: {
    mistral: { provider: "mistral", model: "mistral-large-latest" },
    devstral: { provider: "mistral-here", model: "devstral-small" },
  },
  own: ["mistral-here"],
  refusalOf(body) {
    return unknownField(body) ?? idsAndOrder(body);
  },
};

const messageFields: Readonly<Record<string, readonly string[]>> = {
  system: ["role", "content"],
  user: ["role", "content"],
  assistant: ["role", "content", "tool_calls", "prefix"],
  tool: ["role", "content", "tool_call_id", "name"],
};

// https://docs.mistral.ai/openapi.yaml: `additionalProperties: false` in each kind of message.
function unknownField({ messages }: ChatBody): Refusal | null {
  for (const [at, message] of messages.entries()) {
    const field = Object.keys(message).find((key) => !messageFields[message.role]?.includes(key));
    if (field === undefined) continue;
    const loc = ["body", "messages", at, message.role, field];
    const detail = [{ type: "extra_forbidden", loc, msg: "Extra inputs are not permitted", input: message[field] }];
    return { status: 422, body: { object: "error", message: { detail }, type: "invalid_request_error", code: null } };
  }
  return null;
}

function idsAndOrder(body: ChatBody): Refusal | null {
  // https://mistralai.github.io/mistral-common/usage/tools/; the words: https://github.com/nearai/ironclaw/issues/1241
  const strange = callsOf(body).find(({ id }) => !/^[a-zA-Z0-9]{9}$/.test(id));
  if (strange !== undefined) {
    const words = `Tool call id was ${strange.id} but must be a-z, A-Z, 0-9, with a length of 9.`;
    return refusal(words, "invalid_function_call", "3280");
  }
  // The words: https://github.com/OpenHands/OpenHands/issues/8685
  if (body.messages.some(saysNothing))
    return refusal(
      "Assistant message must have either content or tool_calls, but not none.",
      "invalid_request_message",
      "3240",
    );
  // The words: https://github.com/datapizza-labs/datapizza-ai/issues/98
  const { messages } = body;
  const at = messages.findIndex(({ role }, place) => role === "user" && messages[place - 1]?.role === "tool");
  if (at >= 0) return refusal("Unexpected role 'user' after role 'tool'", "invalid_request_message_order", "3230");
  const unpaired = unpairedCall(body);
  return unpaired === null ? null : refusal(unpaired, "invalid_request_message_order", "3230");
}

function refusal(message: string, type: string, code: string): Refusal {
  return { status: 400, body: { object: "error", message, type, param: null, code, raw_status_code: 400 } };
}
