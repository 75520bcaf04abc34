import { choice, closed, fatal, flag, list, toolName, unbuilt } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection } from "../fields/section.ts";

export const imageTools = defineSection({
  fields: {
    image_tools: unbuilt(
      list(
        "Tools that work on images.",
        closed("One tool.", {
          name: toolName("Name of the tool."),
          description: toldToTheModel(),
          op: choice("What it does.", ["list", "info", "resize", "crop", "rotate", "convert", "thumbnail"]),
          allow_path: flag("Lets the model name a workspace file."),
          fatal: fatal(),
        }),
      ),
    ),
  },
  rules: [unique("image_tools", "name")],
});
