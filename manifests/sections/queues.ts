import { ownKeys } from "../../storage/tables/key-value.ts";
import { refuseArgsSchema } from "../fields/arguments-schema.ts";
import { closed, fatal, integer, list, nullable, text, timeoutMsMax, toolName } from "../fields/fields.ts";
import { argsSchema, toldToTheModel } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  queues: list(
    "Tools that external consumers carry out, by jobs in a Redis list; they answer with POST /internal/sessions/{session_id}/events.",
    closed("One queue.", {
      name: toolName("Its name."),
      queue_binding: text("Key of the list.", { maxLength: 512 }),
      description: toldToTheModel(),
      deadline_ms: nullable(
        integer("Time that the run waits. Milliseconds; null is an hour.", { minimum: 1, maximum: timeoutMsMax }),
      ),
      args_schema: argsSchema(),
      fatal: fatal(),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec;

/** A tool whose calls are pushed to a list for an external consumer. */
export type QueueTool = ToolSpec & { readonly list: string; readonly deadlineMs: number };

const rules: readonly Rule<Spec>[] = [
  notInMulti("queues"),
  unique("queues", "name"),
  {
    says: `cannot begin with ${ownKeys}, as svc's own keys do`,
    broken: ({ queues }) =>
      queues.flatMap(({ queue_binding }, at) =>
        queue_binding.startsWith(ownKeys) ? [["spec", "queues", at, "queue_binding"]] : [],
      ),
  },
];

export const queues = defineSection({
  fields,
  rules,
  binds(spec: Spec, { registries, refuse }) {
    if (spec.queues.length > 0 && !registries.hasRedis)
      refuse(["spec", "queues"], "needs SVC_REDIS_URL, which is not set", "unsupported");
    return spec.queues.map((queue, at) => {
      const loc = ["spec", "queues", at];
      refuseArgsSchema(queue.args_schema, loc, refuse);
      return { loc, tool: compiled(queue) };
    });
  },
  compile: (spec: Spec) => ({
    queues: new Map(spec.queues.map((queue) => [queue.name, compiled(queue)])) as ReadonlyMap<string, QueueTool>,
  }),
});

/**
 * Assumes the strongest effect and risk, because the consumer's behavior is unknown, unless the manifest declares them
 * (decision 81).
 */
function compiled(queue: Spec["queues"][number]): QueueTool {
  const { name, description, queue_binding, deadline_ms, args_schema, fatal } = queue;
  return {
    name,
    description,
    parameters: args_schema ?? anyObject,
    effect: "once",
    risk: "speaks",
    workspace: false,
    list: queue_binding,
    deadlineMs: deadline_ms ?? timeoutMsMax,
    fatal,
  };
}

const anyObject = { type: "object" };
