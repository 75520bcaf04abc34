import { Type } from "../../../bus/type.ts";
import { abortChild, eventsOf, lookAtChild, startChild } from "../child-run.ts";
import { type KindServices, nextLook, type StepKind, type Unit } from "../step-kind.ts";

/** Max messages in the output. */
const messagesMax = 200;

/** An agent works on a prompt, in a durable run of its own. */
export const agent: StepKind = {
  kind: "agent",
  source: "builtin",
  description: "Asks the agent of a manifest. The step waits while the agent waits for a person.",
  config: Type.Object(
    {
      manifest: Type.String({ minLength: 1, maxLength: 128, description: "Name of the manifest." }),
      prompt: Type.String({ minLength: 1, maxLength: 131_072, description: "The message for the agent." }),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [
    { name: "text", type: "text", required: true },
    { name: "messages", type: "list", required: true },
  ],
  forms: { manifest: "literal", prompt: "prompt" },
  isInner: true,
  begin: ({ id, started_at }, { env }) => ({
    kind: "pending",
    status: "running",
    due_at: nextLook(env.now(), started_at),
    child_run_id: id,
  }),
  started: (unit, services) => startChild(unit, workOf(unit), services),
  async look(unit, services) {
    const looked = await lookAtChild(unit, services, async (durable, row) => {
      if (durable.final === null)
        return { kind: "failed", error: "the agent has not answered", mayRetry: row?.result?.acted !== true };
      const messages: object[] = [];
      for await (const { kind, role, content } of eventsOf(services.store, row))
        if (kind === "message" && messages.length < messagesMax) messages.push({ role, content });
      const taint = [...new Set([...unit.taint, ...(row?.result?.taint ?? [])])];
      return { kind: "done", output: { text: durable.final, messages }, taint };
    });
    return looked.kind === "unknown" ? again(unit, services) : looked;
  },
  cancel: abortChild,
};

function workOf({ config }: Unit) {
  return { manifest: String(config.manifest), text: String(config.prompt) };
}

/** Starts a run that the store does not have: its start was lost. */
async function again(unit: Unit, services: KindServices) {
  await startChild(unit, workOf(unit), services);
  return { kind: "pending", status: "running", due_at: nextLook(services.env.now(), unit.started_at) } as const;
}
