import { choice, mapOf, referencesMax, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

export const toolEffects = defineSection({
  fields: {
    tool_effects: unbuilt(
      mapOf(
        "How often a remote tool may run, by tool name or glob.",
        choice("The effect.", ["read", "idempotent", "once"]),
        referencesMax,
      ),
    ),
  },
});
