import { allowsAddress } from "../../../governance/egress/address.ts";
import { readTarget } from "../../../governance/egress/target.ts";
import { isFileId } from "../../../storage/files/file-store.ts";
import { imageTypes } from "../../../storage/tables/files.ts";
import { type Attachment, dataOf, fileIdOf, fileUrl } from "../../log/attachment.ts";

// What a client may attach to a message. An image is passed on by its URL or with its bytes; a file is one that was uploaded. What
// cannot be passed on is dropped, and the caller is told by the log (document 1, "Message content").

/** Attachments of one message; more are refused. */
export const attachmentsMax = 20;

/** An attachment that is taken, or what is to be said of it where it is dropped. */
export type Taken = { readonly attachment: Attachment } | { readonly dropped: string };

interface Part {
  readonly type?: unknown;
  readonly image_url?: unknown;
  readonly file?: unknown;
  readonly file_id?: unknown;
}

/** A part of a message's content that is not text. Refuses with an Error that says what is wrong with an image's URL. */
export function takePart(part: Part): Taken {
  const { type } = part;
  if (type === "image_url" || type === "image") return takeImage(part.image_url);
  const fileId = type === "file" ? namedFile(part) : undefined;
  if (type === "file" && fileId === undefined) return { dropped: "file without file_id" };
  if (fileId === undefined) return { dropped: typeof type === "string" ? type.slice(0, 64) : typeof type };
  return isFileId(fileId)
    ? { attachment: { url: fileUrl(fileId), media_type: "image/png" } }
    : { dropped: "file of a malformed id" };
}

/** An item of a message's `attachments`. Refuses with an Error that says what is wrong. */
export function takeAttachment(item: unknown): Taken {
  if (typeof item !== "object" || item === null || Array.isArray(item)) throw new Error("must be an object");
  const { url, media_type, filename, detail } = item as Readonly<Record<string, unknown>>;
  if (typeof url !== "string") throw new Error("must have a url");
  for (const [name, value] of Object.entries({ media_type, filename }))
    if (value !== undefined && value !== null && (typeof value !== "string" || value.length > 255))
      throw new Error(`must have a ${name} of at most 255 characters, or none`);
  const named = {
    ...(typeof filename === "string" && filename !== "" && { filename }),
    ...detailOf(detail),
  };
  const fileId = fileIdOf(url);
  if (fileId === null) return takeUrl(url, typeof media_type === "string" ? media_type.toLowerCase() : null, named);
  if (!isFileId(fileId)) return { dropped: "file of a malformed id" };
  return { attachment: { url, media_type: "image/png", ...named } };
}

function takeImage(image: unknown): Taken {
  const { url, detail } = (typeof image === "string" ? { url: image } : Object(image)) as Readonly<
    Record<string, unknown>
  >;
  if (typeof url !== "string") throw new Error("must have a url");
  return takeUrl(url, null, detailOf(detail));
}

/** `declared` is what the client says the bytes are, null when it says nothing. */
function takeUrl(url: string, declared: string | null, more: Partial<Attachment>): Taken {
  if (/^data:/i.test(url)) {
    const media_type = dataOf(url)?.media_type;
    if (media_type === undefined) return { dropped: "data: URL without base64" };
    if (!isImageType(media_type)) return { dropped: "data: URL of another type than an image" };
    return { attachment: { url, media_type, ...more } };
  }
  if (!mayBeFetched(url)) return { dropped: "image at a URL that is not passed on" };
  if (declared !== null && !isImageType(declared)) return { dropped: "attachment of another type than an image" };
  return { attachment: { url, media_type: declared ?? "image/png", ...more } };
}

/**
 * Whether a provider may be sent to this URL. It fetches by itself, and where it runs in the operator's own network it must not be
 * made to look around there.
 */
function mayBeFetched(url: string): boolean {
  if (!/^https:/i.test(url)) return false;
  try {
    const { hostname } = readTarget(url);
    const address = hostname.replace(/^\[(.*)\]$/, "$1");
    if (address !== hostname || /^[\d.]+$/.test(hostname)) return allowsAddress("public", address);
    const name = hostname.replace(/\.$/, "");
    return name.includes(".") && !/\.(localhost|local|internal|lan|home\.arpa|onion)$/.test(name);
  } catch {
    return false;
  }
}

function namedFile({ file, file_id }: Part): string | undefined {
  const inner = (file as { file_id?: unknown } | null | undefined)?.file_id;
  const found = typeof inner === "string" ? inner : file_id;
  return typeof found === "string" ? found : undefined;
}

function detailOf(detail: unknown): Partial<Attachment> {
  return typeof detail === "string" && ["auto", "low", "high"].includes(detail) ? { detail } : {};
}

function isImageType(type: string): boolean {
  return (imageTypes as readonly string[]).includes(type);
}
