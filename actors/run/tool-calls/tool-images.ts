import { SvcError } from "../../../bus/errors.ts";
import type { ResultImage } from "../../../governance/controls/verdicts.ts";
import { requestMs, type WriteOp } from "../../../storage/store/store.ts";
import { type Attachment, fileUrl } from "../../log/attachment.ts";
import type { RunContext } from "../context/run-context.ts";

// Images of tools become files of the conversation: they are there from the batch that logs the result, and go when it is deleted.

/** Images of one call that are kept. */
const imagesMax = 4;

/** What became of the images of one call. */
interface KeptImages {
  readonly attachments: readonly Attachment[];
  /** To be written with the result. */
  readonly ops: readonly WriteOp[];
  /** What the model is told of those that were not kept; empty when all were. */
  readonly note: string;
}

/** Keeps the first images of a call, in their order. One that is no image, or too large, costs the others nothing. */
export async function keepImages(runContext: RunContext, images: readonly ResultImage[]): Promise<KeptImages> {
  const attachments: Attachment[] = [];
  const ops: WriteOp[] = [];
  const reasons = new Set<string>();
  for (const image of images.slice(0, imagesMax)) {
    try {
      const { file, keep } = await draftOf(runContext, image);
      const { media_type, filename } = file;
      attachments.push({ url: fileUrl(file.file_id), media_type, ...(filename !== "" && { filename }) });
      ops.push(keep);
    } catch (error) {
      reasons.add(reasonOf(error, runContext));
    }
  }
  if (images.length > imagesMax) reasons.add(`at most ${imagesMax} of a call are kept`);
  const omitted = images.length - attachments.length;
  const note =
    omitted === 0 ? "" : `[${omitted} ${omitted === 1 ? "image" : "images"} omitted: ${[...reasons].join(", ")}]`;
  // A run without a conversation writes its batches at its end, and its next model call is to be shown them.
  if (runContext.spec.thread_suffix !== null || ops.length === 0) return { attachments, ops, note };
  await runContext.store.write(ops, requestMs);
  return { attachments, ops: [], note };
}

function draftOf({ deps, store, spec }: RunContext, { data, filename = "" }: ResultImage) {
  return deps.files.draft(store, {
    // A tool of somebody else's may hand over anything.
    bytes: data instanceof Uint8Array ? data : new Uint8Array(),
    declared: null,
    filename: String(filename).slice(0, 255),
    created_by: spec.principal.sub,
    thread_key: spec.thread_suffix === null ? null : spec.thread_key,
  });
}

const reasons: Readonly<Partial<Record<string, string>>> = {
  empty_data: "no image by its bytes",
  media_type_mismatch: "no image by its bytes",
  attachment_quota_exceeded: "the quota of stored files is used up",
  storage_quota_exceeded: "the quota of what is stored is used up",
};

function reasonOf(error: unknown, { deps, spec }: RunContext): string {
  const code = error instanceof SvcError ? error.code : "";
  const known = code === "file_too_large" ? `larger than ${deps.files.fileBytesMax / 1024} KiB` : reasons[code];
  if (known !== undefined) return known;
  deps.log.warn({ err: error, run_id: spec.run_id }, "an image of a tool result could not be stored");
  return "it could not be kept";
}
