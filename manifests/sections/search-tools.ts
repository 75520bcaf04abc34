import { closed, fatal, integer, list, nullable, toolName, unbuilt } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection } from "../fields/section.ts";

export const searchTools = defineSection({
  fields: {
    search_tools: unbuilt(
      list(
        "Tools that search the web.",
        closed("One tool.", {
          name: toolName("Name of the tool."),
          description: toldToTheModel(),
          max_results: nullable(integer("Most hits.", { minimum: 1, maximum: 20 })),
          fatal: fatal(),
        }),
      ),
    ),
  },
  rules: [unique("search_tools", "name")],
});
