import type { TenantStore } from "../../../storage/store/store.ts";
import { isImageType } from "../../../storage/tables/files.ts";
import type { RunDeps } from "../context/deps.ts";
import { type Intake, withFiles } from "./intake.ts";

/**
 * Looks up the files that a turn's messages refer to, among the tenant's files. A reference to a missing file stays in the log as sent, and
 * models do not see it.
 */
export async function findFiles(
  intake: Intake,
  store: TenantStore,
  requestId: string,
  { files, log }: RunDeps,
): Promise<Intake> {
  const ids = [...new Set(intake.fileIds)];
  const rows = await Promise.all(ids.map((id) => files.find(store, id)));
  const found = new Map(
    rows.flatMap((row) =>
      row === null || !isImageType(row.media_type)
        ? []
        : [
            [
              row.file_id,
              { media_type: row.media_type, ...(row.filename !== "" && { filename: row.filename }) },
            ] as const,
          ],
    ),
  );
  const missing = ids.filter((id) => !found.has(id));
  if (missing.length > 0)
    log.warn({ request_id: requestId, file_ids: missing }, "attachments dropped: their files do not exist");
  return {
    ...intake,
    entries: withFiles(intake.entries, found),
    hasImages: intake.hasImages || found.size > 0,
    droppedParts: missing.length === 0 ? intake.droppedParts : [...intake.droppedParts, "file that is not there"],
  };
}
