import { type ImageType, imageTypes } from "../tables/files.ts";

/** As much as the library asks for to tell any type that it knows; what it looks into is bounded by it. */
const sampleBytes = 4_100;

/** Bytes that `signatureOf` looks at. */
export const signatureBytes = 12;

/**
 * The type of image whose signature these bytes begin with; null for another one. Signatures: PNG (https://www.w3.org/TR/png-3/#5PNG-file-signature),
 * JPEG, GIF and WebP (https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern).
 */
export function signatureOf(bytes: Uint8Array): ImageType | null {
  const text = Buffer.from(bytes.subarray(0, signatureBytes)).toString("latin1");
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("GIF87a") || text.startsWith("GIF89a")) return "image/gif";
  return text.startsWith("RIFF") && text.startsWith("WEBP", 8) ? "image/webp" : null;
}

/** What kind of image these bytes begin like; null for anything else, whatever its name or its sender says. */
export async function imageTypeOf(bytes: Uint8Array): Promise<ImageType | null> {
  if (signatureOf(bytes) === null) return null;
  // Loaded by the first file of a thread: most threads never see one.
  const { fileTypeFromBuffer } = await import("file-type");
  const found = await fileTypeFromBuffer(bytes.subarray(0, sampleBytes));
  // A PNG that moves is a PNG.
  const mime = found?.mime === "image/apng" ? "image/png" : found?.mime;
  return imageTypes.find((type) => type === mime) ?? null;
}
