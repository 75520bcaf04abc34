import { choice, closed, endpointId, integer, list, text, toolGlobs, unbuilt } from "../fields/fields.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";

const fields = {
  hooks: unbuilt(
    list(
      "Endpoints of the operator that are called during a run.",
      closed("One hook.", {
        id: text("Its id.", { maxLength: 128 }),
        event: choice("When.", [
          "session_start",
          "user_prompt_submit",
          "pre_tool_use",
          "post_tool_use",
          "stop",
          "subagent_stop",
        ]),
        endpoint: endpointId("Id of an endpoint for hooks."),
        type: choice("How.", ["http"], "http"),
        tools: toolGlobs("Tools, for tool events; empty is all."),
        timeout_ms: integer("Timeout of one call. Milliseconds.", { minimum: 1, maximum: 10_000, default: 5000 }),
        on_error: choice("Action if the endpoint fails.", ["allow", "block"], "allow"),
      }),
      { maxItems: 16 },
    ),
  ),
};

const rules: readonly Rule<SpecOf<typeof fields> & PatternSpec>[] = [
  loopOnly("spec.hooks", ({ hooks }) => hooks.length > 0),
  unique("hooks", "id"),
];

export const hooks = defineSection({ fields, rules });
