import { estimatedTokens } from "../../../governance/output-count.ts";
import { type ContextMessage, thoughtsLength } from "../../log/message.ts";

/** Estimated tokens of an image of 1000 by 1000 pixels at hosted models. Usage rows take the provider's own count. */
export const imageTokens = 1_600;

/** Estimated tokens of a message as the provider gets it, by its number of characters. */
export function messageTokens({ wireJson, thoughts, attachments }: ContextMessage): number {
  const characters = wireJson.length + (thoughts === null ? 0 : thoughtsLength(thoughts));
  return estimatedTokens(characters) + (attachments?.length ?? 0) * imageTokens;
}

/** Returns the estimated tokens of a list of messages. */
export function messagesTokens(messages: readonly ContextMessage[]): number {
  let tokens = 0;
  for (const message of messages) tokens += messageTokens(message);
  return tokens;
}
