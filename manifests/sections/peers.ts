import { closed, list, toolName, unbuilt } from "../fields/fields.ts";
import { credential, timeoutMs, urlText } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { type NetworkSpec, urlRules } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  peers: unbuilt(
    list(
      "External agents, each with the tool peer__<name>.",
      closed("One agent.", {
        name: toolName("Last part of the tool's name."),
        url: urlText("Its A2A endpoint."),
        auth: credential(),
        timeout_ms: timeoutMs("Timeout of one call; null is 60 seconds."),
      }),
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec & NetworkSpec>[] = [
  notInMulti("peers"),
  unique("peers", "name"),
  ...urlRules("peers", "url"),
];

export const peers = defineSection({ fields, rules });
