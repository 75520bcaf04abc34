import type { TenantStore } from "../../../storage/store/store.ts";
import { fileIdOf } from "../../log/attachment.ts";
import type { ThreadImage } from "../../tools/tool.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { RunDeps } from "./deps.ts";
import type { RunBranch } from "./run-branch.ts";

// The stored images that the tools of a run may use: those of its conversation.

/** The parts of a run that its images need. */
interface ImageRun {
  readonly store: TenantStore;
  readonly deps: Pick<RunDeps, "files">;
  readonly spec: Pick<RunSpec, "thread_key" | "thread_suffix">;
  readonly branch: Pick<RunBranch, "messages">;
}

/** Returns the stored images of the messages of the branch, newest first. */
export function imagesOfBranch({ branch }: Pick<ImageRun, "branch">): readonly ThreadImage[] {
  const found = new Map<string, ThreadImage>();
  for (const { attachments } of branch.messages.toReversed())
    for (const { url, media_type, filename = "" } of attachments?.toReversed() ?? []) {
      const file_id = fileIdOf(url);
      if (file_id !== null && !found.has(file_id)) found.set(file_id, { file_id, media_type, filename });
    }
  return [...found.values()];
}

/** Returns the bytes of an image of the branch, or of one that a tool of this thread made; null for any other id. */
export async function readImage(run: ImageRun, fileId: string): Promise<Uint8Array | null> {
  const { store, deps, spec } = run;
  const found = await deps.files.read(store, fileId);
  if (found === null) return null;
  const isOfThread = spec.thread_suffix !== null && found.file.thread_key === spec.thread_key;
  const isShown = () => imagesOfBranch(run).some(({ file_id }) => file_id === fileId);
  return isOfThread || isShown() ? found.bytes : null;
}
