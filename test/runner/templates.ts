import { join } from "node:path";
import { migrate } from "../../storage/migrate.ts";
import { createDatabase, findServer, testPool } from "../support/postgres-server.ts";
import { makeMigrated } from "../support/sqlite-image.ts";
import { type Cleanup, tempDir } from "../support/temp.ts";

/** Creates a migrated SQLite file and, on request, a migrated Postgres database. Tests copy them. Returns the settings with their places. */
export async function makeTemplates(needPostgres: boolean, atEnd: Cleanup): Promise<Record<string, string>> {
  const path = join(tempDir(atEnd), "svc.db");
  await makeMigrated(path);
  return { SVC_TEST_SQLITE_IMAGE: path, ...(needPostgres && (await postgresTemplate(atEnd))) };
}

async function postgresTemplate(atEnd: Cleanup): Promise<Record<string, string>> {
  const admin = await findServer(atEnd);
  // Without a template the files set up the same state themselves.
  if (admin === null) return {};
  const url = await createDatabase(admin, atEnd);
  await migrate({ engine: "postgres", postgres: testPool(url) }, { target: "head", downgrade: false });
  return { SVC_TEST_POSTGRES_URL: admin, SVC_TEST_POSTGRES_TEMPLATE: new URL(url).pathname.slice(1) };
}
