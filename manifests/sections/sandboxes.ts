import { closed, fatal, list, nullable, optionalText, text, toolName, unbuilt } from "../fields/fields.ts";
import { argsSchema, timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  sandboxes: unbuilt(
    list(
      "Sandboxes of the operator that run code.",
      closed("One sandbox.", {
        name: toolName("Its name."),
        binding: text("The operator's entry.", { maxLength: 512 }),
        description: toldToTheModel(),
        sandbox_tool_name: nullable(toolName("Name of the tool.")),
        timeout_ms: timeoutMs("Timeout of one call."),
        path_prefix: optionalText("Prefix of every path."),
        args_schema: argsSchema(),
        fatal: fatal(),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec>[] = [
  notInMulti("sandboxes"),
  unique("sandboxes", "name"),
];

export const sandboxes = defineSection({ fields, rules });
