import type { Migration, Step } from "../store/migration.ts";

/** All logs are indexed again, by the task that follows them; what is there is found until its turn comes. */
const indexAgain: Step = "UPDATE threads SET indexed_seq = 0 WHERE indexed_seq > 0";

/** Words of one and two letters stand in the index behind a mark of their own: see storage/tables/search-words.ts. */
export const migration: Migration = {
  revision: "0059",
  name: "short_words",
  up: [indexAgain],
  down: [indexAgain],
};
