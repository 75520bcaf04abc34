import { ImageFailure, ImageProcesses } from "../../../actors/tools/images/image-process.ts";
import type { Env } from "../../../bus/env.ts";
import { type PluginErrorCode, SvcError } from "../../../bus/errors.ts";
import { imageTypeOf } from "../../../storage/files/image-type.ts";

// Pictures by which products are searched. A picture is decoded in a process of its own, and a model gets a small copy.

const sideMax = 768;
const seconds = 30;

export const invalidImage: PluginErrorCode = {
  code: "invalid_image",
  status: 400,
  help: "The file is no GIF, JPEG, PNG or WebP image that can be decoded.",
};

let processes: ImageProcesses | null = null;

/** Returns a small JPEG of a picture. Refuses with invalid_image. */
export async function smallCopy(picture: Uint8Array, tenantId: string, env: Env): Promise<Buffer> {
  const bytes = Buffer.from(picture.buffer, picture.byteOffset, picture.byteLength);
  if ((await imageTypeOf(bytes)) === null) throw new SvcError(invalidImage);
  processes ??= new ImageProcesses(env);
  const work = { op: "resize", width: sideMax, height: sideMax, fit: "inside", format: "jpeg", quality: 80 } as const;
  try {
    return (await processes.run(tenantId, work, async () => bytes, AbortSignal.timeout(seconds * 1000))).bytes;
  } catch (error) {
    if (error instanceof ImageFailure) throw new SvcError(invalidImage, {}, { cause: error });
    throw error;
  }
}
