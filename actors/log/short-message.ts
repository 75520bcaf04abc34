import { type ContextMessage, contextMessage, type ShortForm } from "./message.ts";

/** Returns the message cut to a number of characters, optionally without images; the same object if nothing changes. */
export function shortMessage(message: ContextMessage, form: ShortForm): ContextMessage {
  const { role, content, attachments, seq, entry } = message;
  const kept = form.images ? attachments : null;
  if (content.length <= form.chars && kept === attachments) return message;
  const words = content.length <= form.chars ? content : content.slice(0, form.chars).toWellFormed();
  const images = attachments === null || kept !== null ? "" : `\n[${attachments.length} images are left out.]`;
  return contextMessage({
    role,
    content: words + markOf(message, content.length - form.chars) + images,
    tool_call_id: message.tool_call_id ?? undefined,
    attachments: kept,
    seq,
    entry,
    short: form,
    taint: message.taint,
  });
}

/** Returns the note that replaces the omitted characters. */
function markOf({ role }: ContextMessage, left: number): string {
  if (left <= 0) return "";
  if (role !== "tool") return " […]";
  return `\n[${left} more characters of this result are left out: they do not fit into what the model can read. Ask for less of it at a time.]`;
}
