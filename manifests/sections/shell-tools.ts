import { Type } from "../../bus/type.ts";
import { closed, fatal, flag, list, texts, timeoutMsMax, toolName, unbuilt } from "../fields/fields.ts";
import { toldToTheModel } from "../fields/remote.ts";
import { unique } from "../fields/rules.ts";
import { defineSection } from "../fields/section.ts";

export const shellTools = defineSection({
  fields: {
    shell_tools: unbuilt(
      list(
        "Commands that the agent may start.",
        closed("One tool.", {
          name: toolName("Name of the tool."),
          commands: texts("How an allowed command begins, matched token by token; no shell reads it.", {
            minItems: 1,
          }),
          description: toldToTheModel(),
          timeout_ms: Type.Unsafe<number | null>({
            type: ["integer", "null"],
            description: "Timeout of one command. Milliseconds.",
            minimum: 1,
            maximum: timeoutMsMax,
            default: 300_000,
          }),
          fatal: fatal(),
          background: flag("Allows commands that keep running in the background."),
        }),
      ),
    ),
  },
  rules: [unique("shell_tools", "name")],
});
