import type { ChatBody, Family, Refusal } from "./family.ts";
import { callsOf, unpairedCall } from "./rules.ts";

/** OpenAI's own API. */
export const openAi: Family = {
  routes: { gpt: { provider: "openai", model: "gpt-4.1" } },
  refusalOf(body) {
    // https://platform.openai.com/docs/api-reference/chat/create: results follow their calls.
    const unpaired = unpairedCall(body);
    if (unpaired !== null) return refusal(unpaired, "messages");
    // The same page: an assistant's content is "required unless tool_calls or function_call is specified".
    const empty = body.messages.findIndex(
      ({ role, content, tool_calls }) => role === "assistant" && typeof content !== "string" && !tool_calls,
    );
    if (empty >= 0) return refusal("Invalid value for 'content': expected a string, got null.", `messages.[${empty}]`);
    return longId(body);
  },
};

// The limit as the API states it: https://github.com/agno-agi/agno/issues/5382
function longId(body: ChatBody): Refusal | null {
  const long = callsOf(body).find(({ id }) => id.length > 40);
  if (long === undefined) return null;
  const words = `string too long. Expected a string with maximum length 40, but got a string with length ${long.id.length} instead.`;
  return refusal(`Invalid 'messages[1].tool_calls[0].id': ${words}`, "messages[1].tool_calls[0].id");
}

function refusal(message: string, param: string): Refusal {
  return { status: 400, body: { error: { message, type: "invalid_request_error", param, code: null } } };
}
