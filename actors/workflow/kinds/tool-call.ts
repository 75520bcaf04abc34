import { Type } from "../../../bus/type.ts";
import { eventsOf, hasActed, worksAsRun } from "../child-run.ts";
import type { Outcome, StepKind, Unit } from "../step-kind.ts";

/** One call of a tool, in a durable run without a model. */
export const toolCall: StepKind = {
  kind: "tool_call",
  source: "builtin",
  description: "Calls a tool of a manifest, under the controls of that manifest.",
  config: Type.Object(
    {
      manifest: Type.String({ minLength: 1, maxLength: 128, description: "Name of the manifest that binds the tool." }),
      tool: Type.String({ minLength: 1, maxLength: 128, description: "Name of the tool." }),
      args: Type.Optional(Type.Object({}, { additionalProperties: true, description: "Arguments of the call." })),
    },
    { additionalProperties: false },
  ),
  inputs: null,
  outputs: [{ name: "output", type: "any", required: true }],
  forms: { manifest: "literal", tool: "literal" },
  isInner: true,
  ...worksAsRun(workOf, async (unit, { store }, { row }) => {
    const mayRetry = row !== undefined && !(await hasActed(store, row));
    let outcome: Outcome = { kind: "failed", error: "the call has no result", mayRetry };
    for await (const { kind, content, extra } of eventsOf(store, row)) {
      if (kind !== "tool_result") continue;
      const { status = "ok", taint = [] } = (extra?.metadata ?? {}) as { status?: string; taint?: string[] };
      const sources = [...new Set([...unit.taint, ...taint, ...(row?.result?.taint ?? [])])];
      outcome =
        status === "ok"
          ? { kind: "done", output: { output: valueOfResult(content) }, taint: sources }
          : { kind: "failed", error: `${status}: ${content}`.slice(0, 2_000), mayRetry };
    }
    return outcome;
  }),
};

function workOf({ config }: Unit) {
  const call = { name: String(config.tool), arguments: JSON.stringify(config.args ?? {}) };
  return { manifest: String(config.manifest), call };
}

/** Returns the value of a result that is JSON; any other text as it is. */
function valueOfResult(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
