import type { SessionStrategy } from "../../../manifests/sections/session.ts";
import type { ContextMessage } from "../../log/message.ts";

/** Max messages that `semantic:N` searches; older ones are not found. */
const semanticMessages = 1_000;

/** Max messages of the branch that a strategy can use. */
export function messagesNeeded(strategy: SessionStrategy): number {
  if (strategy.kind === "windowed") return strategy.messages;
  return strategy.kind === "semantic" ? semanticMessages : Number.POSITIVE_INFINITY;
}

/**
 * Returns the part of the active branch that the model sees. A window keeps every user message of the running turn, which begins at
 * `turnStart`. Then it adds the newest whole groups that fit. Decision 80: a call and its results are never separated.
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
    // The last group is always shown: it holds the results that the model has just asked for.
    if (size > left && start < branch.length) break;
    left -= size;
    start = groupAt;
  }
  return [...branch.slice(turnStart, start).filter(({ role }) => role === "user"), ...branch.slice(start)];
}

/** Index of the first message of a group. A group is a reply with calls and all their results, or a single other message. */
export function groupStart(branch: readonly ContextMessage[], at: number): number {
  let start = at;
  while (start > 0 && branch[start]?.role === "tool") start--;
  return start;
}

/**
 * Index at which the turn of a request begins. The request's messages are the last of the branch and may quote earlier replies, which
 * precede the turn.
 */
export function turnStartOf(branch: readonly ContextMessage[], requestStart: number): number {
  return Math.max(requestStart, branch.findLastIndex(({ role }) => role === "assistant") + 1);
}

/** Like `turnStartOf`, for a run whose branch already contains its own calls. */
export function turnStartOfRun(branch: readonly ContextMessage[], requestStart: number): number {
  const own = branch.findIndex(({ tool_calls }, at) => at >= requestStart && (tool_calls?.length ?? 0) > 0);
  return turnStartOf(own < 0 ? branch : branch.slice(0, own), requestStart);
}

/** Index of the last user message, which opened the turn that a continuation continues. */
export function lastUserMessage(branch: readonly ContextMessage[]): number {
  return Math.max(
    0,
    branch.findLastIndex(({ role }) => role === "user"),
  );
}

/**
 * Returns the system message: the manifest's text, the instructions of the request, then system messages of the client. The last two are
 * marked as lower in rank.
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

/** JSON text of the messages for a client, without system messages. */
export function clientMessages(messages: readonly ContextMessage[]): string {
  let text = "[";
  for (const message of messages) {
    if (message.role === "system") continue;
    if (text.length > 1) text += ",";
    text += message.clientJson;
  }
  return `${text}]`;
}
