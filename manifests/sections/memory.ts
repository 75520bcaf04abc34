import { choice, flag, integer, section, text, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

const cheapModel = () => text("Logical id of a model route.", { maxLength: 256, default: "claude-haiku" });

export const memory = defineSection({
  fields: {
    memory: unbuilt(
      section("What is remembered, and where.", {
        checkpointer: text(
          "Where the session log lives: postgres (the service's database), none, or a registered name.",
          { maxLength: 128, default: "postgres" },
        ),
        store: unbuilt(choice("Where facts live.", ["pgvector", "memory", "none"], "pgvector"), {
          promises: "pgvector, but no facts are captured or recalled.",
        }),
        capture: section("Notes facts after a turn.", {
          enabled: flag("Switches it on."),
          model: cheapModel(),
          max_facts: integer("Most facts of one turn.", { minimum: 1, maximum: 20, default: 5 }),
          min_chars: integer("Shorter turns are passed over.", { minimum: 0, default: 80 }),
          verify: flag("Checks each fact against the turn; it can only remove facts."),
        }),
        recall: section("Lets the model look for facts.", {
          tools: flag("Binds remember, recall, forget and list_memories."),
          limit: integer("Most facts of one search.", { minimum: 1, maximum: 50, default: 5 }),
        }),
        consolidate: section("Merges facts that say the same.", {
          enabled: flag("Switches it on."),
          model: cheapModel(),
          after_facts: integer("Facts that must have come in since the last time.", { minimum: 10, default: 50 }),
          max_facts: integer("Most facts looked at together.", { minimum: 1, maximum: 500, default: 200 }),
        }),
      }),
    ),
  },
});
