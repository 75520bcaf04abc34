import { choice, flag, integer, section, text, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

const cheapModel = () => text("Logical id of a model route.", { maxLength: 256, default: "claude-haiku" });

export const memory = defineSection({
  fields: {
    memory: unbuilt(
      section("Long-term memory, and its store.", {
        checkpointer: text(
          "Where the session log lives: postgres (the service's database), none, or a registered name.",
          { maxLength: 128, default: "postgres" },
        ),
        store: unbuilt(choice("Store of the facts.", ["pgvector", "memory", "none"], "pgvector"), {
          promises: "pgvector, but no facts are captured or recalled.",
        }),
        capture: section("Stores facts after a turn.", {
          enabled: flag("Switches it on."),
          model: cheapModel(),
          max_facts: integer("Most facts of one turn.", { minimum: 1, maximum: 20, default: 5 }),
          min_chars: integer("Shorter turns are skipped.", { minimum: 0, default: 80 }),
          verify: flag("Checks each fact against the turn; it can only remove facts."),
        }),
        recall: section("Lets the model search facts.", {
          tools: flag("Binds remember, recall, forget and list_memories."),
          limit: integer("Most facts of one search.", { minimum: 1, maximum: 50, default: 5 }),
        }),
        consolidate: section("Merges duplicate facts.", {
          enabled: flag("Switches it on."),
          model: cheapModel(),
          after_facts: integer("New facts since the last time before it runs again.", { minimum: 10, default: 50 }),
          max_facts: integer("Most facts compared at once.", { minimum: 1, maximum: 500, default: 200 }),
        }),
      }),
    ),
  },
});
