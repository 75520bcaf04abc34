import { Type } from "../../../bus/type.ts";
import { eventsOf, hasActed, worksAsRun } from "../child-run.ts";
import type { StepKind, Unit } from "../step-kind.ts";

/** Max messages in the output, and bytes of their JSON, so that a long conversation does not fail a step whose text is short. */
const messagesMax = 200;
const messagesBytesMax = 128 * 1024;

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
  ...worksAsRun(workOf, async (unit, { store }, { durable, row }) => {
    if (durable.final === null) {
      const mayRetry = row !== undefined && !(await hasActed(store, row));
      return { kind: "failed", error: "the agent has not answered", mayRetry };
    }
    const messages: object[] = [];
    let bytes = 0;
    for await (const { kind, role, content } of eventsOf(store, row)) {
      if (kind !== "message") continue;
      bytes += Buffer.byteLength(JSON.stringify({ role, content }));
      if (messages.length === messagesMax || bytes > messagesBytesMax) break;
      messages.push({ role, content });
    }
    const taint = [...new Set([...unit.taint, ...(row?.result?.taint ?? [])])];
    return { kind: "done", output: { text: durable.final, messages }, taint };
  }),
};

function workOf({ config }: Unit) {
  return { manifest: String(config.manifest), text: String(config.prompt) };
}
