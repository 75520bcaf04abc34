import type { SecretMask } from "../../../governance/secret-mask.ts";
import { attachmentsOf } from "../../log/attachment.ts";
import type { LogEntry } from "../../log/entry.ts";
import { type ContextMessage, contextMessage, signedThoughts } from "../../log/message.ts";
import type { Intake } from "./intake.ts";

// What a turn begins with, as its model and the list of conversations see it.

/** Characters of the first user message that the list of sessions shows. */
const previewMax = 120;

/** The caller's first words, for the list of conversations; null when there are none. */
export function previewOf(intake: Intake | null, mask: SecretMask): string | null {
  if (intake === null || intake.userText === null) return null;
  return mask.forms
    .text(intake.userText)
    .slice(0, previewMax * 4)
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, previewMax)
    .toWellFormed();
}

/** What a caller has said, as the model is shown it. */
export function messagesOf(entries: readonly LogEntry[]): ContextMessage[] {
  return entries.map((entry) =>
    contextMessage({
      role: entry.role ?? "user",
      content: entry.content,
      name: entry.kind === "tool_result" ? undefined : entry.extra?.name,
      tool_calls: entry.extra?.tool_calls,
      tool_call_id: entry.extra?.tool_call_id,
      attachments: attachmentsOf(entry.extra),
      thoughts: signedThoughts(entry.extra?.metadata?.thinking),
      entry,
    }),
  );
}
