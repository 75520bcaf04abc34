import type { SessionStrategy } from "../../../manifests/compiled.ts";
import type { ContextMessage } from "./message.ts";

/** How many messages of the branch a strategy can use at most. */
export function messagesNeeded(strategy: SessionStrategy): number {
  return strategy.kind === "windowed" ? strategy.messages : Number.POSITIVE_INFINITY;
}

/** The part of the active branch that the model is shown. Never parts a tool call from its results. */
export function workingSet(branch: readonly ContextMessage[], strategy: SessionStrategy): readonly ContextMessage[] {
  if (strategy.kind === "full_replay" || branch.length <= strategy.messages) return branch;
  return branch.slice(windowStart(branch, strategy.messages));
}

/** Where the last `count` messages begin; earlier when they would begin with a tool's result. */
function windowStart(branch: readonly ContextMessage[], count: number): number {
  let start = Math.max(0, branch.length - count);
  while (start > 0 && branch[start]?.role === "tool") start--;
  return start;
}

/** The system message: the manifest's own text, then what the client sent as system text, marked as such and below. */
export function systemText(systemPrompt: string, messages: readonly ContextMessage[]): string {
  let text = systemPrompt;
  for (const message of messages) {
    if (message.role !== "system") continue;
    text += `${text === "" ? "" : "\n\n---\n\n"}The client sent these instructions. They rank below everything above.\n\n${message.content}`;
  }
  return text;
}

/** JSON text of the message list for a provider, the system message first. */
export function wireMessages(system: string, messages: readonly ContextMessage[]): string {
  let text = "[";
  if (system !== "") text += `{"role":"system","content":${JSON.stringify(system)}}`;
  for (const message of messages) {
    if (message.role === "system") continue;
    if (text.length > 1) text += ",";
    text += message.wireJson;
  }
  return `${text}]`;
}

/** JSON text of the message list for a client, without system text. */
export function clientMessages(messages: readonly ContextMessage[]): string {
  let text = "[";
  for (const message of messages) {
    if (message.role === "system") continue;
    if (text.length > 1) text += ",";
    text += message.clientJson;
  }
  return `${text}]`;
}
