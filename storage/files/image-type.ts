import { type ImageType, imageTypes } from "../tables/files.ts";

/** Bytes that the library needs to detect every type that it knows. This also bounds its work. */
const sampleBytes = 4_100;

/** Number of bytes that `signatureOf` reads. */
export const signatureBytes = 12;

/**
 * Returns the image type whose signature starts these bytes; null for any other. Signatures: PNG
 * (https://www.w3.org/TR/png-3/#5PNG-file-signature), JPEG, GIF and WebP
 * (https://mimesniff.spec.whatwg.org/#matching-an-image-type-pattern).
 */
export function signatureOf(bytes: Uint8Array): ImageType | null {
  const text = Buffer.from(bytes.subarray(0, signatureBytes)).toString("latin1");
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("GIF87a") || text.startsWith("GIF89a")) return "image/gif";
  return text.startsWith("RIFF") && text.startsWith("WEBP", 8) ? "image/webp" : null;
}

/** Detects the image type from the bytes; null for any other content, whatever its name or declared type. */
export async function imageTypeOf(bytes: Uint8Array): Promise<ImageType | null> {
  if (signatureOf(bytes) === null) return null;
  // Imported on first use: most threads never handle a file.
  const { fileTypeFromBuffer } = await import("file-type");
  const found = await fileTypeFromBuffer(bytes.subarray(0, sampleBytes));
  // An animated PNG counts as a PNG.
  const mime = found?.mime === "image/apng" ? "image/png" : found?.mime;
  return imageTypes.find((type) => type === mime) ?? null;
}
