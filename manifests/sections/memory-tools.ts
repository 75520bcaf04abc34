import type { ToolSpec } from "../registries.ts";

// The declarations of the tools of memory; actors/tools/memory/ has their code.

const kind = {
  type: "string",
  enum: ["fact", "event", "instruction", "task"],
  description:
    "fact if absent; event for what happened, instruction for a wish of the user, task for how a task is done.",
};

/** Stores a fact. */
export const remember = declare({
  name: "remember",
  description:
    "Stores one fact for later conversations, in a sentence that is understood without this one. Store what stays true: who the user is, what they prefer, what was decided. Store no secrets.",
  properties: {
    content: { type: "string", minLength: 1, maxLength: 4000, description: "The fact, as one sentence." },
    kind,
    topic_key: {
      type: "string",
      maxLength: 200,
      description: "What the fact is about, as a short key: diet, home_city.",
    },
    importance: { type: "number", minimum: 0, maximum: 1, description: "0.5 if absent." },
  },
  required: ["content"],
  effect: "idempotent",
  risk: "writes",
});

/** Searches facts. */
export const recall = declare({
  name: "recall",
  description:
    "Searches the facts that were stored in earlier conversations. Facts may be out of date: of two that contradict each other, the newer one comes first.",
  properties: {
    query: { type: "string", minLength: 1, maxLength: 1000, description: "Words of the facts." },
    limit: { type: "integer", minimum: 1, maximum: 50, description: "Most facts." },
  },
  required: ["query"],
  effect: "read",
  risk: "reads",
});

/** Forgets a fact. */
export const forget = declare({
  name: "forget",
  description: "Forgets one stored fact, because the user wants that or because it is wrong.",
  properties: {
    memory_id: { type: "string", minLength: 1, maxLength: 64, description: "As recall and list_memories show it." },
  },
  required: ["memory_id"],
  effect: "idempotent",
  risk: "writes",
});

/** Lists the newest facts. */
export const listMemories = declare({
  name: "list_memories",
  description: "Lists the newest stored facts.",
  properties: { limit: { type: "integer", minimum: 1, maximum: 50, description: "Most facts; 20 if absent." } },
  required: [],
  effect: "read",
  risk: "reads",
});

/** Stores how a task was done. */
export const rememberProcedure = declare({
  name: "remember_procedure",
  description:
    "Stores how a task was done, for the next time that a similar task comes. Call it after a task with several steps that went well.",
  properties: {
    task: { type: "string", minLength: 1, maxLength: 500, description: "The task, in general words." },
    steps: {
      type: "array",
      minItems: 1,
      maxItems: 20,
      items: { type: "string", minLength: 1, maxLength: 150 },
      description: "What to do, in order.",
    },
  },
  required: ["task", "steps"],
  effect: "idempotent",
  risk: "writes",
});

/** The tools that spec.memory.recall binds. */
export const memoryTools: readonly ToolSpec[] = [remember, recall, forget, listMemories];

function declare({
  properties,
  required,
  ...spec
}: Pick<ToolSpec, "name" | "description" | "effect" | "risk"> & {
  readonly properties: Readonly<Record<string, object>>;
  readonly required: readonly string[];
}): ToolSpec {
  const parameters = { type: "object", properties, required, additionalProperties: false };
  return { ...spec, parameters: parameters as ToolSpec["parameters"], workspace: false };
}
