import { readFileSync, writeSync } from "node:fs";
import sharp, { type Metadata, type Sharp } from "sharp";
import { framed, unframed } from "../../../governance/processes/byte-frames.ts";
import { imageSideMax } from "../../../manifests/bounds.ts";
import {
  type ImageFacts,
  type ImageOutcome,
  type ImageWork,
  inputPixelsMax,
  resultBytesMax,
  workSeconds,
} from "./image-work.ts";

// Entry of the child process that decodes one image. Native code reads bytes of strangers here, so that its crash ends no other
// work. It reads its work from standard input and writes the outcome to standard output.

sharp.cache(false);
sharp.concurrency(1);
sharp.block({ operation: ["VipsForeignLoad"] });
sharp.unblock({
  operation: [
    "VipsForeignLoadNsgifBuffer",
    "VipsForeignLoadJpegBuffer",
    "VipsForeignLoadPngBuffer",
    "VipsForeignLoadWebpBuffer",
  ],
});

const tooLarge = `the image has more than ${inputPixelsMax} pixels`;

const { header, bytes } = unframed<ImageWork>(readFileSync(0));
const [outcome, result] = await outcomeOf(header, bytes);
const frame = framed(outcome, result);
for (let at = 0; at < frame.length; ) at += writeSync(1, frame, at);

async function outcomeOf(work: ImageWork, given: Buffer): Promise<[ImageOutcome, Uint8Array]> {
  const none = new Uint8Array();
  try {
    const open = () => sharp(given, { limitInputPixels: inputPixelsMax, pages: 1 }).timeout({ seconds: workSeconds });
    const metadata = await open().metadata();
    const facts = factsOf(metadata);
    const refused = refusalOf(work, facts);
    if (refused !== null) return [{ refused }, none];
    if (work.op === "info") return [facts, none];
    const format = work.format ?? (facts.format as NonNullable<ImageWork["format"]>);
    const { data, info } = await changed(open().autoOrient(), work)
      .toFormat(
        format,
        work.quality !== undefined && (format === "jpeg" || format === "webp") ? { quality: work.quality } : {},
      )
      .toBuffer({ resolveWithObject: true });
    if (data.length > resultBytesMax)
      return [
        { refused: `the result has ${data.length} bytes and at most ${resultBytesMax} are stored: make it smaller` },
        none,
      ];
    const { width, height, channels } = info;
    return [{ format, width, height, frames: 1, hasAlpha: channels === 2 || channels === 4 }, data];
  } catch (error) {
    const isTooLarge = error instanceof Error && error.message.includes("pixel limit");
    return [{ refused: isTooLarge ? tooLarge : "the image cannot be decoded: it is damaged or cut" }, none];
  }
}

/** Width and height are those of the image as it is shown, turned as its metadata say. */
function factsOf({ format, autoOrient, pages = 1, hasAlpha }: Metadata): ImageFacts {
  return { format, width: autoOrient.width, height: autoOrient.height, frames: pages, hasAlpha };
}

function refusalOf(
  { op, left = 0, top = 0, width = 0, height = 0, degrees }: ImageWork,
  facts: ImageFacts,
): string | null {
  if (facts.width * facts.height > inputPixelsMax) return tooLarge;
  const size = `${facts.width} × ${facts.height} pixels`;
  if (op === "crop" && (left + width > facts.width || top + height > facts.height))
    return `the rectangle is not inside the image, which has ${size}`;
  const keepsSize = op === "convert" || (op === "rotate" && degrees !== undefined);
  if (keepsSize && Math.max(facts.width, facts.height) > imageSideMax)
    return `the result would have ${size} and at most ${imageSideMax} on each side are allowed: resize the image first`;
  return null;
}

function changed(image: Sharp, work: ImageWork): Sharp {
  switch (work.op) {
    case "resize":
      return image.resize({
        width: work.width ?? imageSideMax,
        height: work.height ?? imageSideMax,
        fit: work.fit ?? "inside",
      });
    case "thumbnail": {
      const size = work.size ?? 256;
      return image.resize({ width: size, height: size, fit: "inside", withoutEnlargement: true });
    }
    case "crop": {
      const { left = 0, top = 0, width = 1, height = 1 } = work;
      return image.extract({ left, top, width, height });
    }
    case "rotate":
      return image.rotate(work.degrees ?? 90);
    default:
      return image;
  }
}
