import { choice, closed, endpointId, integer, list, text, toolGlobs } from "../fields/fields.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchGlob } from "../glob.ts";
import { loopOnly, type PatternSpec } from "./pattern.ts";

/** The events of hooks, in the order of a run. */
const hookEvents = [
  "session_start",
  "user_prompt_submit",
  "pre_tool_use",
  "post_tool_use",
  "stop",
  "subagent_stop",
] as const;

/** An event of a run for which hooks are called. */
export type HookEvent = (typeof hookEvents)[number];

const fields = {
  hooks: list(
    "Endpoints of the operator that are called during a run.",
    closed("One hook.", {
      id: text("Its id.", { maxLength: 128 }),
      event: choice("When.", hookEvents),
      endpoint: endpointId("Id of an endpoint for hooks."),
      type: choice("How.", ["http"], "http"),
      tools: toolGlobs("Tools, for tool events; empty is all."),
      timeout_ms: integer("Timeout of one call. Milliseconds.", { minimum: 1, maximum: 10_000, default: 5000 }),
      on_error: choice("Action if the endpoint fails.", ["allow", "block"], "allow"),
      content: choice(
        "What the endpoint gets: names only, arguments and texts, or results too.",
        ["none", "args", "full"],
        "args",
      ),
    }),
    { maxItems: 16 },
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

const rules: readonly Rule<Spec>[] = [loopOnly("spec.hooks", ({ hooks }) => hooks.length > 0), unique("hooks", "id")];

/** One hook of the manifest. */
export type Hook = SpecOf<typeof fields>["hooks"][number];

export const hooks = defineSection({
  fields,
  rules,
  compile(
    { hooks: all }: Spec,
    { registries, tenantId, tools, refuse, selectsNothing },
  ): { readonly hooks: readonly Hook[] } {
    for (const [at, { id, endpoint, tools: globs }] of all.entries()) {
      const tenants = registries.hookEndpoints?.has(endpoint) ? (registries.webhookEndpoints.get(endpoint) ?? []) : [];
      // The message is the same for a missing endpoint and for one of another tenant, so that it reveals nothing.
      if (tenants !== "*" && !tenants.includes(tenantId))
        refuse(["spec", "hooks", at, "endpoint"], `names an unknown endpoint for hooks: ${endpoint}`, "unresolved");
      for (const glob of globs)
        if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(`${id}: ${glob}`, "hook");
    }
    return { hooks: all };
  },
});
