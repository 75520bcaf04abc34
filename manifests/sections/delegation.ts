import { closed, flag, integer, nullable, optionalText, references, text } from "../fields/fields.ts";
import { each, type Rule, uniqueIn } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  delegation: nullable(
    closed("Manifests that the agent may hand tasks to.", {
      agents: references(
        "Who may be asked.",
        closed("One of them.", {
          name: text("Name of a manifest.", { maxLength: 128 }),
          description: optionalText("Told to the model."),
        }),
        { minItems: 1 },
      ),
      worktree: flag("Gives each task its own checkout of the thread's repository. Refused by this version."),
      background: flag("Lets tasks run beside the conversation. Refused by this version."),
      max_background: integer("Background tasks in flight for one conversation.", {
        minimum: 1,
        maximum: 16,
        default: 3,
      }),
    }),
  ),
};

/** What of `spec` is declared here. */
export type DelegationSpec = SpecOf<typeof fields>;

const rules: readonly Rule<DelegationSpec & PatternSpec>[] = [
  {
    says: "does not go with sub_agents",
    broken: (spec) => (spec.delegation !== null && spec.sub_agents.length > 0 ? [["spec", "delegation"]] : []),
  },
  uniqueIn("spec.delegation.agents", "name", (spec) => spec.delegation?.agents ?? []),
  {
    says: "cannot name the manifest itself",
    broken: ({ delegation }, manifestName) =>
      each(
        "spec.delegation.agents",
        (delegation?.agents ?? []).map(({ name }) => name),
        (name) => name === manifestName,
      ),
  },
];

/** Other agents that an agent may ask. */
export const delegation = defineSection({
  fields,
  rules,
  compile({ delegation: given }: DelegationSpec & PatternSpec, { refuse }) {
    for (const flagName of ["worktree", "background"] as const)
      if (given?.[flagName])
        refuse(["spec", "delegation", flagName], "is not supported by this version", "unsupported");
    return null;
  },
});

/** The name of the tool that hands tasks to others. */
export const taskToolName = "task";

/** The tool that hands tasks to others, for the agents that a manifest names; null where it names none. */
export function taskToolOf({ delegation: given }: DelegationSpec): ToolSpec | null {
  if (given === null) return null;
  const described = given.agents.map(({ name, description }) =>
    description === "" ? name : `${name}: ${description}`,
  );
  return {
    name: taskToolName,
    description:
      "Hands a task to another agent and waits for its answer. It sees nothing of this conversation: say all that it needs to know. " +
      `Agents: ${described.join("; ")}`,
    parameters: {
      type: "object",
      properties: {
        agent: { type: "string", enum: given.agents.map(({ name }) => name), description: "Who is to do it." },
        prompt: { type: "string", minLength: 1, maxLength: 200_000, description: "The task, with all that it needs." },
      },
      required: ["agent", "prompt"],
      additionalProperties: false,
    },
    effect: "once",
    // It may do whatever its agent may.
    risk: "speaks",
    workspace: false,
  };
}
