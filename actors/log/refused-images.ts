import type { LogEvent } from "../../storage/tables/events.ts";
import type { LogEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";

// A provider that refuses an image refuses every request that contains it, so one bad image would fail all later turns. An event
// after the refused turn removes the images of the newest message that still had some. The faulty one is not guessed (decision
// 215: a mark replaces all images of that message). The event names no message, so that it stays valid in a copied log.

const type = "images_refused";

/** Returns the entry that removes the images of the newest message that has some; not in the model's context. */
export function refusedImagesEntry(): LogEntry {
  return { kind: "audit", role: null, content: "", extra: { metadata: { type } } };
}

/** True for such an event. */
export function refusesImages({ kind, extra }: LogEvent): boolean {
  return kind === "audit" && extra?.metadata?.type === type;
}

/** True if models receive images of this message. */
export function showsImages({ attachments }: ContextMessage): boolean {
  return attachments?.some(({ isRefused }) => isRefused !== true) ?? false;
}

/** Returns the message with all images removed from the model's view. */
export function withRefusedImages(message: ContextMessage): ContextMessage {
  const attachments = message.attachments?.map((one) => ({ ...one, isRefused: true as const })) ?? null;
  return { ...message, attachments };
}
