import type { Migration, Step } from "../store/migration.ts";

/**
 * Resets the index position of all logs, so that the indexing task indexes them again. Existing entries stay searchable
 * until then.
 */
const indexAgain: Step = "UPDATE threads SET indexed_seq = 0 WHERE indexed_seq > 0";

/** Words of one and two letters carry a mark of their own in the index; see storage/tables/search-words.ts. */
export const migration: Migration = {
  revision: "0059",
  name: "short_words",
  up: [indexAgain],
  down: [indexAgain],
};
