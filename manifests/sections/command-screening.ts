import { Type } from "../../bus/type.ts";
import { choice, closed, flag, list, nullable, number, section, text, toolGlobs, unbuilt } from "../fields/fields.ts";
import { defineSection } from "../fields/section.ts";

export const commandScreening = defineSection({
  fields: {
    command_screening: unbuilt(
      section("Checks commands before they run.", {
        enabled: flag("Switches it on."),
        include_defaults: flag("Adds the built-in rules.", true),
        rules: list(
          "Rules, the first that matches decides.",
          closed("One rule.", {
            pattern: text("Part of a command.", { maxLength: 256 }),
            decision: choice("What happens.", ["allow", "deny", "require_approval"]),
            reason: nullable(Type.String({ description: "The reason, shown to the people who decide." })),
          }),
        ),
        target_tools: toolGlobs("Tools whose commands are checked."),
        approval_ttl_seconds: number("Time to decide.", {
          exclusiveMinimum: 0,
          maximum: 3600,
          default: 300,
        }),
      }),
    ),
  },
});
