import { closed, fatal, integer, list, nullable, toolName, unbuilt } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection } from "../fields/section.ts";

export const documentTools = defineSection({
  fields: {
    document_tools: unbuilt(
      list(
        "Tools that search the tenant's documents.",
        closed("One tool.", {
          name: toolName("Name of the tool."),
          description: toldToTheModel(),
          max_results: nullable(integer("Most hits.", { minimum: 1, maximum: 10 })),
          fatal: fatal(),
        }),
      ),
    ),
  },
  rules: [unique("document_tools", "name")],
});
