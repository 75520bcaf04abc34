import { choice, closed, fatal, list, optionalText, text, toolName, unbuilt } from "../fields/fields.ts";
import { timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { NetworkSpec } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  browser_tools: unbuilt(
    list(
      "Tools that open a page in a browser.",
      closed("One tool.", {
        name: toolName("Name of the tool."),
        description: toldToTheModel(),
        binding: text("The operator's entry.", { maxLength: 512 }),
        op: choice("The result of a call.", ["content", "links", "snapshot", "screenshot", "pdf", "json"], "content"),
        timeout_ms: timeoutMs("Timeout of one call."),
        path_prefix: optionalText("URL that every address must begin with."),
        fatal: fatal(),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec & NetworkSpec>[] = [
  notInMulti("browser_tools"),
  unique("browser_tools", "name"),
  {
    says: "does not go with spec.network",
    broken: (spec) => when(spec.network.allow_hosts !== null && spec.browser_tools.length > 0, "spec.browser_tools"),
  },
];

export const browserTools = defineSection({ fields, rules });
