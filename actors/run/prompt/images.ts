import type { FileStore } from "../../../storage/files/file-store.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { type Attachment, dataOf, fileIdOf } from "../../log/attachment.ts";
import type { ContextMessage } from "../../log/message.ts";
import { showsImages } from "../../log/refused-images.ts";
import type { ImagesOfCall, ModelImage, ShownImages } from "../../models/images.ts";

// The images of a model call. The log keeps references; their bytes are read just before each call, and forgotten after it. A call
// is given the newest images, as many as providers take and one process can hold for many runs.

/** Images of one call. */
const imagesMax = 20;
/** Their bytes together, as base64. The largest upload and the largest body alone may be more. */
const base64CharsMax = 12 * 1024 * 1024;

/**
 * Reads the images of messages. What a reference does not lead to any more is left out, and named in `missing`. Refuses with
 * storage_unavailable.
 */
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

/** What a call shows of messages when no model of the turn takes images: nothing is read. */
export function unreadImages(messages: readonly ContextMessage[]): ImagesOfCall {
  const shown = new Map<ContextMessage, ShownImages>();
  for (const message of messages)
    if (message.attachments !== null)
      shown.set(message, { images: [], attachments: [], omitted: message.attachments.length });
  return shown;
}

/** The same messages for a model that takes no images. */
export function withoutImages(shown: ImagesOfCall): ImagesOfCall {
  return new Map(
    [...shown].map(([message, { images, omitted }]) => [
      message,
      { images: [], attachments: [], omitted: omitted + images.length },
    ]),
  );
}

/** How many images a call does not show. */
export function countOmitted(shown: ImagesOfCall): number {
  let count = 0;
  for (const { omitted } of shown.values()) count += omitted;
  return count;
}

/** An image as it is given to a model; null when what refers to it leads nowhere any more. */
export async function readImage(
  { url, media_type, detail }: Attachment,
  files: FileStore,
  store: TenantStore,
): Promise<ModelImage | null> {
  const more = detail === undefined ? {} : { detail };
  const fileId = fileIdOf(url);
  if (fileId !== null) {
    const found = await files.read(store, fileId);
    if (found === null) return null;
    const { buffer, byteOffset, byteLength } = found.bytes;
    const base64 = Buffer.from(buffer, byteOffset, byteLength).toString("base64");
    return { kind: "bytes", media_type: found.file.media_type, base64, ...more };
  }
  const data = dataOf(url);
  return data === null ? { kind: "url", url, ...more } : { kind: "bytes", media_type, base64: data.base64, ...more };
}
