import type { EventExtra } from "../../storage/tables/events.ts";

/** What a message carries beside its words, as the log keeps it: a reference, or a whole data: URL, never a file's bytes. */
export interface Attachment {
  /** `svc-file://{file_id}`, an https: URL, or a data: URL. */
  readonly url: string;
  readonly media_type: string;
  readonly filename?: string;
  readonly detail?: string;
  /** In memory alone: a provider has refused the images of its message, so that no model is shown them any more. */
  readonly isRefused?: true;
}

const fileScheme = "svc-file://";

/** The reference to a file. */
export function fileUrl(fileId: string): string {
  return fileScheme + fileId;
}

/** The id that a reference names; null for a URL of another kind. */
export function fileIdOf(url: string): string | null {
  return url.startsWith(fileScheme) ? url.slice(fileScheme.length) : null;
}

/** The bytes of a data: URL as base64, and what they are said to be; null when it has none. */
export function dataOf(url: string): { readonly media_type: string; readonly base64: string } | null {
  const comma = url.indexOf(",");
  if (comma < 0 || !/^data:/i.test(url.slice(0, 5))) return null;
  const [type = "", ...params] = url.slice(5, comma).toLowerCase().split(";");
  const base64 = url.slice(comma + 1);
  if (params.at(-1)?.trim() !== "base64" || base64 === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  return { media_type: type.trim() || "image/png", base64 };
}

/** What the server has written into an event of its own; null for none. */
export function attachmentsOf(extra: EventExtra | null): readonly Attachment[] | null {
  const attachments = extra?.metadata?.attachments as readonly Attachment[] | undefined;
  return attachments === undefined || attachments.length === 0 ? null : attachments;
}
