import type { FileStore } from "../../../storage/files/file-store.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { isImageType } from "../../../storage/tables/files.ts";
import { type Attachment, dataOf, fileIdOf } from "../../log/attachment.ts";
import type { ContextMessage } from "../../log/message.ts";
import { showsImages } from "../../log/refused-images.ts";
import type { ImagesOfCall, ModelImage, ShownImages } from "../../models/images.ts";

// The images of a model call. The log keeps references. Each call reads the bytes anew and does not cache them. A call gets the newest
// images, up to a number and a size that providers accept and one process can hold for many runs.

/** Max images in one call. */
const imagesMax = 20;
/** Max base64 characters of all images in one call. A single upload or body of the largest allowed size may exceed it. */
const base64CharsMax = 12 * 1024 * 1024;

/** Reads the images of messages. A reference to a deleted file is left out and listed in `missing`. Refuses with storage_unavailable. */
export async function readImages(
  messages: readonly ContextMessage[],
  files: FileStore,
  store: TenantStore,
  bodyBytesMax: number,
): Promise<{ readonly shown: ImagesOfCall; readonly missing: readonly string[] }> {
  const shown = new Map<ContextMessage, ShownImages>();
  const missing: string[] = [];
  let places = imagesMax;
  let chars = Math.max(base64CharsMax, bodyBytesMax, Math.ceil(files.fileBytesMax / 3) * 4);
  for (const message of messages.toReversed()) {
    if (message.attachments === null) continue;
    // Images beyond the bound and refused images are not read.
    const tried = showsImages(message) ? message.attachments.slice(0, places) : [];
    const found = await Promise.all(tried.map((one) => readImage(one, files, store)));
    const images: ModelImage[] = [];
    const attachments: number[] = [];
    let omitted = message.attachments.length - tried.length;
    for (const [at, image] of found.entries()) {
      const size = image?.kind === "bytes" ? image.base64.length : 0;
      if (image === null) missing.push((tried[at] as Attachment).url);
      else if (size > chars) omitted++;
      else {
        images.push(image);
        attachments.push(at);
        places--;
        chars -= size;
      }
    }
    shown.set(message, { images, attachments, omitted });
  }
  return { shown, missing };
}

/** Returns the images of messages as omitted, without reading them. For turns whose models all take no images. */
export function unreadImages(messages: readonly ContextMessage[]): ImagesOfCall {
  const shown = new Map<ContextMessage, ShownImages>();
  for (const message of messages)
    if (message.attachments !== null)
      shown.set(message, { images: [], attachments: [], omitted: message.attachments.length });
  return shown;
}

/** Returns the same messages with all images omitted, for a model that takes none. */
export function withoutImages(shown: ImagesOfCall): ImagesOfCall {
  return new Map(
    [...shown].map(([message, { images, omitted }]) => [
      message,
      { images: [], attachments: [], omitted: omitted + images.length },
    ]),
  );
}

/** Number of images that a call omits. */
export function countOmitted(shown: ImagesOfCall): number {
  let count = 0;
  for (const { omitted } of shown.values()) count += omitted;
  return count;
}

/** Returns an image as the model gets it; null if its file was deleted. */
export async function readImage(
  { url, media_type, detail }: Attachment,
  files: FileStore,
  store: TenantStore,
): Promise<ModelImage | null> {
  const more = detail === undefined ? {} : { detail };
  const fileId = fileIdOf(url);
  if (fileId !== null) {
    const found = await files.read(store, fileId);
    if (found === null || !isImageType(found.file.media_type)) return null;
    const { buffer, byteOffset, byteLength } = found.bytes;
    const base64 = Buffer.from(buffer, byteOffset, byteLength).toString("base64");
    return { kind: "bytes", media_type: found.file.media_type, base64, ...more };
  }
  const data = dataOf(url);
  return data === null ? { kind: "url", url, ...more } : { kind: "bytes", media_type, base64: data.base64, ...more };
}
