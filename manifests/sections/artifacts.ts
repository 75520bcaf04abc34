import { flag, integer, section, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

export const artifacts = defineSection({
  fields: {
    artifacts: unbuilt(
      section("Stores long tool output separately and shows the model its beginning.", {
        enabled: flag("Switches it on."),
        threshold_chars: integer("Longer output is stored separately.", { minimum: 1, default: 8000 }),
        preview_chars: integer("Characters that the model sees at once.", { minimum: 0, default: 200 }),
        default_window_chars: integer("Characters of one read.", { minimum: 1, default: 4000 }),
        max_window_chars: integer("Most characters of one read.", { minimum: 1, default: 16_000 }),
      }),
    ),
  },
});
