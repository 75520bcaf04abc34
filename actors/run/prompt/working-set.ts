import type { SessionStrategy } from "../../../manifests/sections/session.ts";
import type { ContextMessage } from "../../log/message.ts";

/** Messages that `semantic:N` looks through: older ones are not found. */
const semanticMessages = 1_000;

/** How many messages of the branch a strategy can use at most. */
export function messagesNeeded(strategy: SessionStrategy): number {
  if (strategy.kind === "windowed") return strategy.messages;
  return strategy.kind === "semantic" ? semanticMessages : Number.POSITIVE_INFINITY;
}

/**
 * The part of the active branch that the model is shown. A window keeps every user message of the running turn, which begins at
 * `turnStart`, then the newest whole groups that fit: a call is never parted from its results (decision 80).
 */
export function workingSet(
  branch: readonly ContextMessage[],
  strategy: SessionStrategy,
  turnStart: number,
): readonly ContextMessage[] {
  if (strategy.kind !== "windowed" || branch.length <= strategy.messages) return branch;
  const isAsked = (at: number): boolean => at >= turnStart && branch[at]?.role === "user";
  let left = strategy.messages;
  for (let at = turnStart; at < branch.length; at++) if (isAsked(at)) left--;
  let start = branch.length;
  while (start > 0) {
    const groupAt = groupStart(branch, start - 1);
    const size = isAsked(groupAt) ? 0 : start - groupAt;
    // The last group is shown in any case: it is what the model has just asked for.
    if (size > left && start < branch.length) break;
    left -= size;
    start = groupAt;
  }
  return [...branch.slice(turnStart, start).filter(({ role }) => role === "user"), ...branch.slice(start)];
}

/** Where the group begins that a message belongs to: calls and all their results, or the message alone. */
export function groupStart(branch: readonly ContextMessage[], at: number): number {
  let start = at;
  while (start > 0 && branch[start]?.role === "tool") start--;
  return start;
}

/** Where the turn begins that a request's messages, the last of the branch, are: after what they quote of earlier answers. */
export function turnStartOf(branch: readonly ContextMessage[], requestStart: number): number {
  return Math.max(requestStart, branch.findLastIndex(({ role }) => role === "assistant") + 1);
}

/** The same of a run that has asked for calls since: its own messages begin with those. */
export function turnStartOfRun(branch: readonly ContextMessage[], requestStart: number): number {
  const own = branch.findIndex(({ tool_calls }, at) => at >= requestStart && (tool_calls?.length ?? 0) > 0);
  return turnStartOf(own < 0 ? branch : branch.slice(0, own), requestStart);
}

/** Where the last message of a user stands; a continuation is of the turn that it has begun. */
export function lastUserMessage(branch: readonly ContextMessage[]): number {
  return Math.max(
    0,
    branch.findLastIndex(({ role }) => role === "user"),
  );
}

/**
 * The system message: the manifest's own text, then the instructions of the request, then what the client sent as system text: marked
 * as such and below.
 */
export function systemText(
  systemPrompt: string,
  instructions: string | null,
  messages: readonly ContextMessage[],
): string {
  let text = systemPrompt;
  if (instructions !== null && instructions !== "") text += ofClient(text, instructions);
  for (const message of messages) if (message.role === "system") text += ofClient(text, message.content);
  return text;
}

function ofClient(above: string, instructions: string): string {
  return `${above === "" ? "" : "\n\n---\n\n"}The client sent these instructions. They rank below everything above.\n\n${instructions}`;
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
