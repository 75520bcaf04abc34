import { type ImageType, imageTypes } from "../tables/files.ts";

/** As much as the library asks for to tell any type that it knows; what it looks into is bounded by it. */
const sampleBytes = 4_100;

/** What kind of image these bytes begin like; null for anything else, whatever its name or its sender says. */
export async function imageTypeOf(bytes: Uint8Array): Promise<ImageType | null> {
  // Loaded by the first file of a thread: most threads never see one.
  const { fileTypeFromBuffer } = await import("file-type");
  const found = await fileTypeFromBuffer(bytes.subarray(0, sampleBytes));
  // A PNG that moves is a PNG.
  const mime = found?.mime === "image/apng" ? "image/png" : found?.mime;
  return imageTypes.find((type) => type === mime) ?? null;
}
