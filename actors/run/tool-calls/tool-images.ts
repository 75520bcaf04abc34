import { SvcError } from "../../../bus/errors.ts";
import type { ResultImage } from "../../../governance/controls/verdicts.ts";
import { requestMs, type WriteOp } from "../../../storage/store/store.ts";
import { documentType } from "../../../storage/tables/files.ts";
import { type Attachment, fileUrl } from "../../log/attachment.ts";
import type { RunContext } from "../context/run-context.ts";

// Images of tools become files of the thread. They are stored in the batch that logs the result, and deleted with the thread.

/** Max stored images of one call. */
const imagesMax = 4;

/** The stored images of one call. */
interface KeptImages {
  readonly attachments: readonly Attachment[];
  /** Statements to write with the result. */
  readonly ops: readonly WriteOp[];
  /** Text for the model about omitted images; empty if all were stored. */
  readonly note: string;
}

/**
 * Stores the first images of a call, in their order, and its first document. An invalid or too large file is omitted; the others are
 * stored.
 */
export async function keepImages(
  runContext: RunContext,
  images: readonly ResultImage[],
  documents: readonly ResultImage[] = [],
): Promise<KeptImages> {
  const attachments: Attachment[] = [];
  const ops: WriteOp[] = [];
  const reasons = new Set<string>();
  const wanted = [
    ...images.slice(0, imagesMax).map((image) => ({ image, declared: null })),
    ...documents.slice(0, 1).map((image) => ({ image, declared: documentType })),
  ];
  for (const { image, declared } of wanted) {
    try {
      const { file, keep } = await draftOf(runContext, image, declared);
      const { media_type, filename } = file;
      attachments.push({ url: fileUrl(file.file_id), media_type, ...(filename !== "" && { filename }) });
      ops.push(keep);
    } catch (error) {
      reasons.add(reasonOf(error, runContext));
    }
  }
  if (images.length > imagesMax) reasons.add(`at most ${imagesMax} of a call are kept`);
  const omitted = images.length + documents.length - attachments.length;
  const note =
    omitted === 0 ? "" : `[${omitted} ${wordOf(omitted, documents.length)} omitted: ${[...reasons].join(", ")}]`;
  // A run without a thread writes its batches at its end, but its next model call already shows the images.
  if (runContext.spec.thread_suffix !== null || ops.length === 0) return { attachments, ops, note };
  await runContext.store.write(ops, requestMs);
  return { attachments, ops: [], note };
}

function draftOf({ deps, store, spec }: RunContext, { data, filename = "" }: ResultImage, declared: string | null) {
  return deps.files.draft(store, {
    // A tool of a plugin may pass any value.
    bytes: data instanceof Uint8Array ? data : new Uint8Array(),
    declared,
    filename: String(filename).slice(0, 255),
    created_by: spec.principal.sub,
    thread_key: spec.thread_suffix === null ? null : spec.thread_key,
  });
}

function wordOf(count: number, documents: number): string {
  const word = documents === 0 ? "image" : "file";
  return count === 1 ? word : `${word}s`;
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
