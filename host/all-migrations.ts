import { migrations } from "../storage/migrations/list.ts";
import type { Migration } from "../storage/store/migration.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";

// Separate from plugin-seams.ts, because actor threads load those seams and need no migrations.

/** Every migration of a deployment, in the order of their revisions: numbers first, then those that begin with a plugin's name. */
export function allMigrations(plugins: readonly LoadedPlugin[]): readonly Migration[] {
  const theirs = plugins.flatMap(({ plugin }) => plugin.migrations ?? []);
  return [...migrations, ...theirs].toSorted((a, b) => (a.revision < b.revision ? -1 : 1));
}
