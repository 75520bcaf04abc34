import type { Dialect } from "./dialect.ts";
import { migration as threads } from "./migrations/0001_threads.ts";
import { migration as manifests } from "./migrations/0002_manifests.ts";
import { migration as governance } from "./migrations/0003_governance.ts";
import { migration as files } from "./migrations/0004_files.ts";
import { migration as search } from "./migrations/0005_search.ts";

type Steps = readonly string[] | Readonly<Record<Dialect, readonly string[]>>;

/** One step of the schema. Revisions are four digits; 0006 to 0018 belong to the commerce layer. */
export interface Migration {
  readonly revision: string;
  readonly name: string;
  readonly up: Steps;
  readonly down: Steps;
}

/** Every migration, in the order of their revisions. */
export const migrations: readonly Migration[] = [threads, manifests, governance, files, search];
