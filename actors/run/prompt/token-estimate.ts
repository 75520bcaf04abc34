import { estimatedTokens } from "../../../governance/output-count.ts";
import { type ContextMessage, thoughtsLength } from "../../log/message.ts";

/** What hosted models count for an image of a thousand pixels each way; what counts is what the provider then reports. */
export const imageTokens = 1_600;

/** Tokens of a message as a provider is sent it, by the rule of thumb. */
export function messageTokens({ wireJson, thoughts, attachments }: ContextMessage): number {
  const characters = wireJson.length + (thoughts === null ? 0 : thoughtsLength(thoughts));
  return estimatedTokens(characters) + (attachments?.length ?? 0) * imageTokens;
}

/** The same of many. */
export function messagesTokens(messages: readonly ContextMessage[]): number {
  let tokens = 0;
  for (const message of messages) tokens += messageTokens(message);
  return tokens;
}
