import type { ImageOp, imageFormats } from "../../../manifests/sections/image-tools.ts";

// What svc and the child process that decodes images send each other: a header in JSON, then the bytes of an image.

/** Work on one image. */
export interface ImageWork {
  readonly op: Exclude<ImageOp, "list">;
  readonly width?: number;
  readonly height?: number;
  readonly fit?: "inside" | "cover" | "fill";
  readonly left?: number;
  readonly top?: number;
  readonly degrees?: 90 | 180 | 270;
  readonly format?: (typeof imageFormats)[number];
  readonly quality?: number;
  readonly size?: number;
}

/** The outcome of the work: facts about the image, or why there is no result, in words for the model. */
export type ImageOutcome = ImageFacts | { readonly refused: string };

/** Facts about an image. */
export interface ImageFacts {
  readonly format: string;
  readonly width: number;
  readonly height: number;
  /** Frames of an animation; 1 for other images. */
  readonly frames: number;
  readonly hasAlpha: boolean;
}

/** Max pixels of a decoded image. */
export const inputPixelsMax = 40_000_000;
/** Max bytes of a result. */
export const resultBytesMax = 600 * 1024;
/** Time after which the library gives up. */
export const workSeconds = 15;
