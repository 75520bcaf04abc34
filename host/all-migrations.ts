import { migrations } from "../storage/migrations/list.ts";
import type { Migration } from "../storage/store/migration.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";

// Not among the other seams: threads that hold actors need those, and of a schema they know nothing.

/** Every migration of a deployment, ours first, in the order of their revisions. */
export function allMigrations(plugins: readonly LoadedPlugin[]): readonly Migration[] {
  const theirs = plugins.flatMap(({ plugin }) => plugin.migrations ?? []);
  return [...migrations, ...theirs.toSorted((a, b) => (a.revision < b.revision ? -1 : 1))];
}
