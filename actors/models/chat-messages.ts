import type { ToolCall } from "../../storage/tables/events.ts";
import { type ChatRules, callIdOnWire } from "./chat-rules.ts";
import { type ImagesOfCall, openAiContent, openAiPart, openAiText, type ShownImages, wordsWith } from "./images.ts";
import type { ModelMessage } from "./provider.ts";
import { type OwnFields, ownFields } from "./vendor-fields.ts";

// Renders a thread for the OpenAI chat completions protocol. The JSON of each message is cached and joined for every call of the
// turn. Deviations of a provider, and fields that it wants returned, change only the messages concerned.

/** The fields that the JSON of a message contains. */
export interface ChatParts {
  readonly role: ModelMessage["role"];
  readonly content: string;
  readonly name?: string | undefined;
  readonly tool_calls?: readonly ToolCall[] | null | undefined;
  readonly tool_call_id?: string | null | undefined;
}

/** An assistant message between tool results and a user message, for providers that do not accept them adjacent. */
const bridge = '{"role":"assistant","content":"OK."}';
/** The value that Gemini accepts as any signature: https://ai.google.dev/gemini-api/docs/thought-signatures */
const anySignature = '"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}';

/** Returns the JSON of a message without attachments, in the form that every provider accepts. */
export function chatMessage({ role, content, name, tool_calls, tool_call_id }: ChatParts): string {
  let text = `{"role":"${role}","content":${contentJson(role, content)}`;
  if (name !== undefined && role === "user" && name !== "") text += `,"name":${JSON.stringify(wireName(name))}`;
  if (hasCalls(tool_calls)) text += `,"tool_calls":${JSON.stringify(tool_calls.map(wireCall))}`;
  if (typeof tool_call_id === "string") text += `,"tool_call_id":${JSON.stringify(tool_call_id)}`;
  return `${text}}`;
}

/** Returns the JSON of the message list, system message first. Without `images`, messages are text only. */
export function chatMessages(
  system: string,
  messages: readonly ModelMessage[],
  images: ImagesOfCall | null = null,
  rules: ChatRules | null = null,
): string {
  let text = "[";
  let before: ModelMessage["role"] = "system";
  const add = (role: ModelMessage["role"], json: string): void => {
    if (text.length > 1) text += ",";
    if (rules?.bridgesResults && before === "tool" && role === "user") text += `${bridge},`;
    text += json;
    before = role;
  };
  if (system !== "") add("system", `{"role":"system","content":${JSON.stringify(system)}}`);
  let ofTools = "";
  for (const message of messages) {
    if (message.role === "system" || saysNothing(message)) continue;
    // Tool results must directly follow their calls, so send images of results after all of them.
    if (ofTools !== "" && message.role !== "tool") {
      add("user", userMessage(ofTools));
      ofTools = "";
    }
    const shown = images?.get(message);
    if (shown !== undefined && message.role === "user") add("user", withImages(message, shown, rules));
    else add(message.role, rules === null ? message.wireJson : messageJson(message, rules));
    if (shown !== undefined && message.role !== "user")
      ofTools += `${ofTools === "" ? "" : ","}${toolImages(message, shown, rules)}`;
  }
  if (ofTools !== "") add("user", userMessage(ofTools));
  return `${text}]`;
}

/** True if the rules of a model change any of these messages. */
export function areChanged(messages: readonly ModelMessage[], rules: ChatRules): boolean {
  return messages.some(
    (message, at) =>
      isChanged(message, rules) ||
      (rules.bridgesResults && message.role === "tool" && messages[at + 1]?.role !== "assistant"),
  );
}

/**
 * True for an assistant message without text and calls, for example one that was cut off before its first word. Mistral refuses
 * such messages (https://github.com/OpenHands/OpenHands/issues/8685); providers of Anthropic's models also refuse blank text.
 */
function saysNothing({ role, content, tool_calls }: ModelMessage): boolean {
  return role === "assistant" && !hasCalls(tool_calls) && content.trim() === "";
}

function hasCalls(calls: readonly ToolCall[] | null | undefined): calls is readonly ToolCall[] {
  return calls !== null && calls !== undefined && calls.length > 0;
}

function contentJson(role: ModelMessage["role"], content: string): string {
  return role === "assistant" && content.trim() === "" ? '""' : JSON.stringify(content);
}

function isChanged({ role, tool_calls, tool_call_id, thoughts }: ModelMessage, rules: ChatRules): boolean {
  if (role === "user") return !rules.namesUsers;
  if (thoughts !== null || (tool_call_id !== null && rules.callIds !== "any")) return true;
  return hasCalls(tool_calls) && (rules.callIds !== "any" || rules.signsCalls || rules.thinksBeforeCalls);
}

interface Rendered {
  readonly rules: ChatRules;
  readonly json: string;
}

const rendered = new WeakMap<ModelMessage, Rendered>();

function messageJson(message: ModelMessage, rules: ChatRules): string {
  if (!isChanged(message, rules)) return message.wireJson;
  const kept = rendered.get(message);
  if (kept?.rules === rules) return kept.json;
  const json = changedJson(message, rules);
  rendered.set(message, { rules, json });
  return json;
}

function changedJson({ role, content, tool_calls, tool_call_id, thoughts }: ModelMessage, rules: ChatRules): string {
  const own = ownFields(thoughts, rules);
  let text = `{"role":"${role}","content":${contentJson(role, content)}`;
  if (own.message !== "") text += `,${own.message}`;
  else if (rules.thinksBeforeCalls && hasCalls(tool_calls)) text += ',"reasoning_content":""';
  if (hasCalls(tool_calls))
    text += `,"tool_calls":[${tool_calls.map((call, at) => callJson(call, at, own, rules)).join(",")}]`;
  if (tool_call_id !== null) text += `,"tool_call_id":${JSON.stringify(callIdOnWire(tool_call_id, rules.callIds))}`;
  return `${text}}`;
}

function callJson(call: ToolCall, at: number, own: OwnFields, rules: ChatRules): string {
  const json = JSON.stringify(wireCall({ ...call, id: callIdOnWire(call.id, rules.callIds) }));
  // Gemini signs the first call of a step.
  const fields = own.calls.get(at) ?? (rules.signsCalls && at === 0 ? anySignature : "");
  return fields === "" ? json : `${json.slice(0, -1)},${fields}}`;
}

function wireCall(call: ToolCall) {
  const args = JSON.stringify(wireArguments(call.args));
  return { id: call.id, type: "function", function: { name: call.name, arguments: args } };
}

/**
 * Returns the arguments of a call as an object. Some servers accept nothing else in earlier calls: Ollama (fromChatRequest in
 * https://github.com/ollama/ollama/blob/main/openai/openai.go) and llama.cpp
 * (https://github.com/ggml-org/llama.cpp/issues/25510).
 */
export function wireArguments(args: unknown): object {
  if (typeof args === "object" && args !== null && !Array.isArray(args)) return args;
  return { arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

/** Returns a name that providers accept; an invalid one would fail every later turn of the thread. */
function wireName(name: string): string {
  return name
    .replace(/[\s<|\\/>]/g, "_")
    .slice(0, 64)
    .toWellFormed();
}

function userMessage(parts: string): string {
  return `{"role":"user","content":[${parts}]}`;
}

/** Returns a user message with its images. If all of them are gone the text says so, because providers refuse empty messages. */
function withImages(message: ModelMessage, shown: ShownImages, rules: ChatRules | null): string {
  const { role, content } = message;
  const head = `{"role":"${role}","content":`;
  const plain = rules === null ? message.wireJson : messageJson(message, rules);
  const rest = plain.slice(head.length + JSON.stringify(content).length);
  const words = wordsWith(content, shown);
  const said = shown.images.length === 0 ? JSON.stringify(words) : openAiContent(words, shown.images);
  return `${head}${said}${rest}`;
}

/** Returns the images of a tool result. Results are text only in the OpenAI protocol, so images follow in a separate message. */
function toolImages({ tool_call_id }: ModelMessage, { images, omitted }: ShownImages, rules: ChatRules | null): string {
  const id = callIdOnWire(tool_call_id ?? "", rules?.callIds ?? "any");
  const words = images.length === 0 ? "" : `Images of the result of ${id}:`;
  return [openAiText(wordsWith(words, { images, omitted })), ...images.map(openAiPart)].join(",");
}
