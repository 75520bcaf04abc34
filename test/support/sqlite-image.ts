import { copyFileSync } from "node:fs";
import { migrate } from "../../storage/migrate.ts";

/** Puts a database at the newest revision at this path: a copy of the one that the runner has made, when there is one. */
export async function copyMigrated(path: string): Promise<void> {
  const image = process.env.SVC_TEST_SQLITE_IMAGE;
  if (image === undefined) await makeMigrated(path);
  else copyFileSync(image, path);
}

/** Makes one, in a single file. */
export async function makeMigrated(path: string): Promise<void> {
  await migrate({ engine: "sqlite", path }, { target: "head", downgrade: false });
}
