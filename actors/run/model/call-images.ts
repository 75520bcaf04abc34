import type { ModelRoute } from "../../../manifests/registries.ts";
import type { ContextMessage } from "../../log/message.ts";
import { refusedImagesEntry, showsImages } from "../../log/refused-images.ts";
import type { ImagesOfCall } from "../../models/images.ts";
import type { RunContext } from "../context/run-context.ts";
import { takesImages } from "../intake/admission.ts";
import { countOmitted, readImages, unreadImages, withoutImages } from "../prompt/images.ts";
import { imageTokens } from "../prompt/token-estimate.ts";

/** Reads the images of messages. Null if the run is stopped first. */
export function imagesOf(
  runContext: RunContext,
  shown: readonly ContextMessage[],
): ImagesOfCall | Promise<ImagesOfCall | null> {
  if (!runContext.spec.routes.some(takesImages)) return unreadImages(shown);
  return runContext.cancellation.orStopped(readAll(runContext, shown));
}

/** Returns the images for a model of this route; all are omitted if it takes none. */
export function imagesFor(runContext: RunContext, route: ModelRoute, images: ImagesOfCall): ImagesOfCall {
  const given = takesImages(route) ? images : withoutImages(images);
  const omitted = countOmitted(given);
  if (omitted > 0) runContext.metrics.count("svc_model_images_omitted_total", { model: route.id }, omitted);
  return given;
}

/** Estimated tokens of the images of a call, for its reservation. */
export function estimatedImageTokens(images: ImagesOfCall): number {
  let count = 0;
  for (const shown of images.values()) count += shown.images.length;
  return count * imageTokens;
}

/** Notes that later requests must omit the images of the newest message that has some. */
export async function refuseImages({ eventLog, branch, askedBy, run }: RunContext): Promise<void> {
  const newest = branch.messages.findLast(showsImages);
  // Images from the tools of a sub-agent are not shown in later turns, so no note is needed.
  const isOfSubAgent = askedBy !== null && newest?.role === "tool" && newest.entry !== null;
  if (newest === undefined || isOfSubAgent || run.hasRefusedImages) return;
  // Parallel sub-agents share the message, so one note is enough.
  run.hasRefusedImages = true;
  await eventLog.append([refusedImagesEntry()], []);
}

/** Deleted files are logged once per run. */
async function readAll(runContext: RunContext, shown: readonly ContextMessage[]): Promise<ImagesOfCall> {
  const { deps, spec, store } = runContext;
  const { shown: images, missing } = await readImages(shown, deps.files, store, deps.settings.maxBodyBytes);
  const unreported = missing.filter((url) => !runContext.branch.missingFiles?.has(url));
  if (unreported.length > 0) {
    deps.log.warn({ request_id: spec.request_id, files: unreported }, "attachments dropped: their files were deleted");
    runContext.branch.missingFiles = new Set([...(runContext.branch.missingFiles ?? []), ...unreported]);
  }
  return images;
}
