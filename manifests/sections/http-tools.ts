import {
  choice,
  closed,
  fatal,
  flag,
  integer,
  list,
  nullable,
  optionalText,
  toolName,
  unbuilt,
} from "../fields/fields.ts";
import { timeoutMs, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type NetworkSpec, urlRules } from "./network.ts";

const fields = {
  http_tools: unbuilt(
    list(
      "Tools that fetch from the web.",
      closed("One tool.", {
        name: toolName("Name of the tool."),
        description: toldToTheModel(),
        path_prefix: optionalText("URL that every address must begin with."),
        timeout_ms: timeoutMs("Timeout of one call."),
        max_bytes: nullable(integer("Most bytes of an answer.", { minimum: 1, maximum: 5_000_000 })),
        format: choice("How the answer is shown.", ["text", "raw"], "text"),
        fatal: fatal(),
        allow_any_host: flag("Lets the model choose the host."),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & NetworkSpec>[] = [
  unique("http_tools", "name"),
  ...urlRules("http_tools", "path_prefix"),
];

export const httpTools = defineSection({ fields, rules });
