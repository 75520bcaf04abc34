import { closed, fatal, list, nullable, text, toolName, unbuilt } from "../fields/fields.ts";
import { argsSchema, credential, timeoutMs, toldToTheModel, urlText } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type NetworkSpec, urlRules } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  containers: unbuilt(
    list(
      "Container images that run as tools.",
      closed("One image.", {
        name: toolName("Its name."),
        description: toldToTheModel(),
        gateway_url: nullable(urlText("The gateway that runs it.")),
        image: text("The image.", { maxLength: 512 }),
        container_tool_name: nullable(toolName("Name of the tool.")),
        timeout_ms: timeoutMs("Timeout of one call."),
        auth: credential(),
        args_schema: argsSchema(),
        fatal: fatal(),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec & NetworkSpec>[] = [
  notInMulti("containers"),
  unique("containers", "name"),
  ...urlRules("containers", "gateway_url"),
];

export const containers = defineSection({ fields, rules });
