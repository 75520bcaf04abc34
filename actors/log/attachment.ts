import type { EventExtra } from "../../storage/tables/events.ts";
import { documentType } from "../../storage/tables/files.ts";

/** An attachment of a message, as the event log stores it: a reference or a complete data: URL, never a file's bytes. */
export interface Attachment {
  /** `svc-file://{file_id}`, an https: URL, or a data: URL. */
  readonly url: string;
  readonly media_type: string;
  readonly filename?: string;
  readonly detail?: string;
  /** In memory only: a provider refused the images of this message, so models no longer receive them. */
  readonly isRefused?: true;
}

const fileScheme = "svc-file://";

/** Returns the reference to a file. */
export function fileUrl(fileId: string): string {
  return fileScheme + fileId;
}

/** Returns the file id of a reference; null for any other URL. */
export function fileIdOf(url: string): string | null {
  return url.startsWith(fileScheme) ? url.slice(fileScheme.length) : null;
}

/** Returns the base64 and declared media type of a data: URL; null if it is not one in base64. */
export function dataOf(url: string): { readonly media_type: string; readonly base64: string } | null {
  const comma = url.indexOf(",");
  if (comma < 0 || !/^data:/i.test(url.slice(0, 5))) return null;
  const [type = "", ...params] = url.slice(5, comma).toLowerCase().split(";");
  const base64 = url.slice(comma + 1);
  if (params.at(-1)?.trim() !== "base64" || base64 === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  return { media_type: type.trim() || "image/png", base64 };
}

/** Returns the attachments that the server wrote into an event; null for none. */
export function attachmentsOf(extra: EventExtra | null): readonly Attachment[] | null {
  const attachments = extra?.metadata?.attachments as readonly Attachment[] | undefined;
  return attachments === undefined || attachments.length === 0 ? null : attachments;
}

/** Returns the attachments that models may read: documents of tools are for people. Null for none. */
export function shownAttachments(attachments: readonly Attachment[] | null): readonly Attachment[] | null {
  if (attachments === null || attachments.every(({ media_type }) => media_type !== documentType)) return attachments;
  const shown = attachments.filter(({ media_type }) => media_type !== documentType);
  return shown.length === 0 ? null : shown;
}
