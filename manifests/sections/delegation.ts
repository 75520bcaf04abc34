import { closed, flag, integer, list, nullable, optionalText, text } from "../fields/fields.ts";
import { each, type Rule, uniqueIn } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import type { PatternSpec } from "./pattern.ts";

const fields = {
  delegation: nullable(
    closed("Manifests that the agent may hand tasks to.", {
      agents: list(
        "The allowed agents.",
        closed("An allowed agent.", {
          name: text("Name of a manifest.", { maxLength: 128 }),
          description: optionalText("Description for the model."),
        }),
        { minItems: 1 },
      ),
      worktree: flag(
        "Gives each task files of its own, where the thread has a repository, and binds the tool merge_task.",
      ),
      background: flag(
        "Allows background tasks, which are durable runs that continue independently of the turn, and binds the tool task_result.",
      ),
      max_background: integer("Maximum open background tasks of one thread.", {
        minimum: 1,
        maximum: 16,
        default: 3,
      }),
    }),
  ),
};

/** The fields of this section in `spec`. */
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

/** Other agents that an agent may give tasks to. */
export const delegation = defineSection({
  fields,
  rules,
});

/** Name of the tool that starts tasks. */
export const taskToolName = "task";
/** Name of the tool that returns the result of a background task. */
export const taskResultToolName = "task_result";

/** Name of the tool that takes over the work of a task in a worktree. */
export const mergeTaskToolName = "merge_task";

/** Max seconds that one call waits for the end of a task. */
const waitSecondsMax = 60;

/** An agent and its sub-agents. */
interface Delegating {
  readonly manifest: { readonly spec: DelegationSpec };
  readonly subAgents: readonly Delegating[];
}

/** True if runs of the agent may start tasks. */
export function mayDelegate({ manifest, subAgents }: Delegating): boolean {
  return manifest.spec.delegation !== null || subAgents.some(mayDelegate);
}

/** Returns the delegation tools for the agents that a manifest names; none if it names none. */
export function delegationTools({ delegation: given }: DelegationSpec): readonly ToolSpec[] {
  if (given === null) return [];
  const { agents, background, worktree } = given;
  const described = agents.map(({ name, description }) => (description === "" ? name : `${name}: ${description}`));
  const beside = {
    type: "boolean",
    default: false,
    description: "Do not wait: the task goes on by itself, and task_result says what has come of it.",
  };
  const task: ToolSpec = {
    name: taskToolName,
    description:
      "Hands a task to another agent and waits for its answer. It sees nothing of this conversation: say all that it needs to know. " +
      `Agents: ${described.join("; ")}`,
    parameters: {
      type: "object",
      properties: {
        agent: { type: "string", enum: agents.map(({ name }) => name), description: "Who is to do it." },
        prompt: { type: "string", minLength: 1, maxLength: 200_000, description: "The task, with all that it needs." },
        ...(background && { background: beside }),
      },
      required: ["agent", "prompt"],
      additionalProperties: false,
    },
    effect: "once",
    // The task may do anything that its agent may.
    risk: "speaks",
    workspace: false,
  };
  return [task, ...(background ? [taskResult] : []), ...(worktree ? [mergeTask] : [])];
}

const taskResult: ToolSpec = {
  name: taskResultToolName,
  description: "Says where a task in the background is, and its answer when it has one.",
  parameters: {
    type: "object",
    properties: {
      task_id: { type: "string", minLength: 1, maxLength: 64, description: "As the tool task has said it." },
      wait_seconds: {
        type: "integer",
        minimum: 0,
        maximum: waitSecondsMax,
        default: 0,
        description: "How long to wait for its end.",
      },
    },
    required: ["task_id"],
    additionalProperties: false,
  },
  effect: "read",
  risk: "reads",
  workspace: false,
};

const mergeTask: ToolSpec = {
  name: mergeTaskToolName,
  description:
    "Merges the changes of a task into the files of this conversation, or discards them. A task with changes holds one of eight places until then.",
  parameters: {
    type: "object",
    properties: {
      task_id: { type: "string", pattern: "^[0-9a-f]{16}$", description: "As the answer of the task has said it." },
      discard: { type: "boolean", default: false, description: "True to drop the changes." },
    },
    required: ["task_id"],
    additionalProperties: false,
  },
  effect: "once",
  risk: "writes",
  workspace: false,
};
