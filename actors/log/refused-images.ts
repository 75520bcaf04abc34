import type { LogEvent } from "../../storage/tables/events.ts";
import type { LogEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";

// A provider that refuses an image refuses every request that shows it, so that one bad image would end every later turn of its
// conversation. An event behind the refused turn says that the images of the newest message that had some then are not shown any more.
// Which of them it was is not guessed (decision 215). It names no message: it means the same in a log that is copied.

const type = "images_refused";

/** Says that the images of the newest message that shows some are refused; outside the model's context. */
export function refusedImagesEntry(): LogEntry {
  return { kind: "audit", role: null, content: "", extra: { metadata: { type } } };
}

/** True if the event says so. */
export function refusesImages({ kind, extra }: LogEvent): boolean {
  return kind === "audit" && extra?.metadata?.type === type;
}

/** True if models are shown images of this message. */
export function showsImages({ attachments }: ContextMessage): boolean {
  return attachments?.some(({ isRefused }) => isRefused !== true) ?? false;
}

/** The message with none of its images shown. */
export function withRefusedImages(message: ContextMessage): ContextMessage {
  const attachments = message.attachments?.map((one) => ({ ...one, isRefused: true as const })) ?? null;
  return { ...message, attachments };
}
