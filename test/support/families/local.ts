import type { ChatBody, Family, Refusal } from "./family.ts";
import { callsOf, isJsonObject } from "./rules.ts";

/** Ollama and llama.cpp. */
export const local: Family = {
  routes: {
    ollama: { provider: "ollama", model: "qwen3" },
    "llama-cpp": { provider: "llama-cpp", model: "gpt-oss" },
  },
  own: ["ollama", "llama-cpp"],
  refusalOf: (body) => (body.model === "qwen3" ? ofOllama(body) : ofLlamaCpp(body)),
};

// https://github.com/ollama/ollama/blob/main/openai/openai.go, fromChatRequest: arguments are unmarshalled into a map.
function ofOllama(body: ChatBody): Refusal | null {
  const nameless = body.messages.find(({ content, tool_calls }) => typeof content !== "string" && !tool_calls);
  if (nameless !== undefined && !Array.isArray(nameless.content)) return refusal(400, "invalid message content type");
  const broken = callsOf(body).some((call) => !isJsonObject(call.function.arguments));
  return broken ? refusal(400, "invalid tool call arguments") : null;
}

// https://github.com/ggml-org/llama.cpp/issues/25510: func_args_not_string() in common/chat.cpp, and templates that take the members.
function ofLlamaCpp(body: ChatBody): Refusal | null {
  const broken = callsOf(body).some((call) => !isJsonObject(call.function.arguments));
  return broken ? refusal(500, "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]") : null;
}

function refusal(status: number, message: string): Refusal {
  const type = status === 500 ? "server_error" : "invalid_request_error";
  return { status, body: { error: { code: status, message, type } } };
}
