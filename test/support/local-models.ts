import { inTurn } from "./chat.ts";
import type { Behaviour } from "./mock-model/behaviours.ts";
import type { Script } from "./mock-model/script.ts";

// The wire formats of local model servers, each with its habits, from their sources (Ollama 0.12 openai/openai.go, vLLM
// 0.11 serving_chat.py, LM Studio 0.3 REST, llama.cpp server/utils.hpp). All ask for 6 * 7, and then state the result.

type Chunk = Readonly<Record<string, unknown>>;

const usage = { prompt_tokens: 31, completion_tokens: 9, total_tokens: 40 };
const call = { name: "calculator", arguments: '{"expression":"6 * 7"}' };

/** Answers by the name of the server. */
export const localModels: Readonly<Record<string, Behaviour>> = {
  // One chunk has the whole call; the role is in every delta.
  ollama: inTurn(
    stream("chatcmpl-287", [
      delta({
        role: "assistant",
        content: "",
        tool_calls: [{ id: "call_o1", index: 0, type: "function", function: call }],
      }),
      delta({ role: "assistant", content: "" }, "tool_calls"),
      { choices: [], usage },
    ]),
    stream("chatcmpl-288", [
      delta({ role: "assistant", content: "It is" }),
      delta({ role: "assistant", content: " 42." }),
      delta({ role: "assistant", content: "" }, "stop"),
      { choices: [], usage },
    ]),
  ),
  // Null members, arguments in pieces, and reasoning next to the text.
  vllm: inTurn(
    stream("chatcmpl-a1", [
      delta({ role: "assistant", content: "", reasoning_content: null }),
      delta({ reasoning_content: "A product. " }),
      delta({
        tool_calls: [
          { id: "chatcmpl-tool-1", type: "function", index: 0, function: { name: call.name, arguments: "" } },
        ],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: call.arguments.slice(0, 8) } }] }),
      delta({ tool_calls: [{ index: 0, function: { arguments: call.arguments.slice(8) } }] }),
      delta({}, "tool_calls", { stop_reason: null, token_ids: null }),
      { choices: [], usage: { ...usage, prompt_tokens_details: null } },
    ]),
    stream("chatcmpl-a2", [
      delta({ role: "assistant", content: "" }),
      delta({ content: "It is 42." }, null, { token_ids: null }),
      delta({ content: "" }, "stop", { stop_reason: null }),
      { choices: [], usage: { ...usage, prompt_tokens_details: null } },
    ]),
  ),
  lmstudio: inTurn(
    stream("chatcmpl-lm1", [
      delta({
        role: "assistant",
        tool_calls: [{ index: 0, id: "463", type: "function", function: { name: call.name, arguments: "" } }],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: call.arguments } }] }),
      delta({}, "tool_calls", { logprobs: null }),
      { choices: [], usage },
    ]),
    stream("chatcmpl-lm2", [
      delta({ role: "assistant", content: "It is 42." }),
      delta({}, "stop", { logprobs: null }),
      { choices: [], usage, stats: { draft_model: null } },
    ]),
  ),
  // A first delta with a content of null, and its own clock in the last chunk.
  "llama.cpp": inTurn(
    stream("chatcmpl-cpp1", [
      delta({ role: "assistant", content: null }),
      delta({
        tool_calls: [{ index: 0, id: "cpp1", type: "function", function: { name: call.name, arguments: "{" } }],
      }),
      delta({ tool_calls: [{ index: 0, function: { arguments: call.arguments.slice(1) } }] }),
      delta({}, "tool_calls"),
      { choices: [], usage, timings: { prompt_n: 31, predicted_n: 9, predicted_per_second: 40.1 } },
    ]),
    stream("chatcmpl-cpp2", [
      delta({ role: "assistant", content: null }),
      delta({ content: "It is 42." }),
      delta({}, "stop"),
      { choices: [], usage, timings: { prompt_n: 31, predicted_n: 9 } },
    ]),
  ),
};

function delta(fields: Chunk, finish_reason: string | null = null, more: Chunk = {}): Chunk {
  return { choices: [{ index: 0, delta: fields, finish_reason, ...more }] };
}

function stream(id: string, chunks: readonly Chunk[]): Script {
  const about = {
    id,
    object: "chat.completion.chunk",
    created: 1_780_000_000,
    model: "local",
    system_fingerprint: "fp",
  };
  const steps = chunks.map((chunk) => ({ send: `data: ${JSON.stringify({ ...about, ...chunk })}\n\n` }));
  return { headers: { "content-type": "text/event-stream" }, steps: [...steps, { send: "data: [DONE]\n\n" }] };
}
