import { allowsAddress } from "../../../governance/egress/address.ts";
import { readTarget } from "../../../governance/egress/target.ts";
import { isFileId } from "../../../storage/files/file-store.ts";
import { signatureBytes, signatureOf } from "../../../storage/files/image-type.ts";
import { type ImageType, imageTypes } from "../../../storage/tables/files.ts";
import { type Attachment, dataOf, fileIdOf, fileUrl } from "../../log/attachment.ts";

// Attachments of a message. An image is passed on by URL or as bytes; a file must have been uploaded. Unsupported attachments are dropped
// and listed in the server's log (specification document 1, "Message content").

/** Max attachments of one message; more are refused. */
export const attachmentsMax = 20;

/** An accepted attachment, or the reason why it was dropped. */
export type Taken = { readonly attachment: Attachment } | { readonly dropped: string };

interface Part {
  readonly type?: unknown;
  readonly image_url?: unknown;
  readonly file?: unknown;
  readonly file_id?: unknown;
}

/** Reads a part of a message's content that is not text. Throws an Error with the reason if an image's URL is invalid. */
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

/** Reads an item of a message's `attachments`. Throws an Error with the reason if it is invalid. */
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

/** `declared` is the media type that the client names; null for none. */
function takeUrl(url: string, declared: string | null, more: Partial<Attachment>): Taken {
  if (/^data:/i.test(url)) {
    const data = dataOf(url);
    if (data === null) return { dropped: "data: URL without base64" };
    const media_type = typeOf(data);
    if (media_type === null) return { dropped: "data: URL of another type than an image" };
    return { attachment: { url, media_type, ...more } };
  }
  const parsed = fetchable(url);
  if (parsed === null) return { dropped: "image at a URL that is not passed on" };
  const type = declared === null ? "image/png" : knownType(declared);
  if (type === null) return { dropped: "attachment of another type than an image" };
  return { attachment: { url: parsed, media_type: type, ...more } };
}

/**
 * The image type of a data: URL; null if the declared type is no supported image. The signature of the bytes overrides the declared type,
 * because providers refuse a mismatch.
 */
function typeOf({ media_type, base64 }: { readonly media_type: string; readonly base64: string }): ImageType | null {
  const said = knownType(media_type);
  const beginning = base64.slice(0, Math.ceil(signatureBytes / 3) * 4);
  return said === null ? null : (signatureOf(Buffer.from(beginning, "base64")) ?? said);
}

/** Names of image types that clients use besides the registered ones. */
const aliases: ReadonlyMap<string, ImageType> = new Map([
  ["image/jpg", "image/jpeg"],
  ["image/pjpeg", "image/jpeg"],
  ["image/jfif", "image/jpeg"],
  ["image/x-png", "image/png"],
  ["image/apng", "image/png"],
]);

/** Returns the registered name of an image type; null for an unknown type. */
function knownType(type: string): ImageType | null {
  return aliases.get(type) ?? imageTypes.find((known) => known === type) ?? null;
}

/**
 * Returns the normalized URL if a provider may fetch it; null otherwise. Private hosts are excluded, because a provider inside the
 * operator's network must not be used to scan it. The original text is not passed on: the provider's parser could read another host from
 * it.
 */
function fetchable(url: string): string | null {
  if (!/^https:/i.test(url)) return null;
  try {
    const { hostname } = readTarget(url);
    return isPublicHost(hostname) ? new URL(url).href : null;
  } catch {
    return null;
  }
}

function isPublicHost(hostname: string): boolean {
  const address = hostname.replace(/^\[(.*)\]$/, "$1");
  if (address !== hostname || /^[\d.]+$/.test(hostname)) return allowsAddress("public", address);
  const name = hostname.replace(/\.$/, "");
  return name.includes(".") && !/\.(localhost|local|internal|lan|home\.arpa|onion)$/.test(name);
}

function namedFile({ file, file_id }: Part): string | undefined {
  const inner = (file as { file_id?: unknown } | null | undefined)?.file_id;
  const found = typeof inner === "string" ? inner : file_id;
  return typeof found === "string" ? found : undefined;
}

function detailOf(detail: unknown): Partial<Attachment> {
  return typeof detail === "string" && ["auto", "low", "high"].includes(detail) ? { detail } : {};
}
