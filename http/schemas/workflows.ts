import { Type } from "../../bus/type.ts";
import { EpochMs, nullable, OpenObject } from "./common.ts";
import { noon, runIdExample } from "./example-values.ts";

// Schemas of workflows and their runs.

export const definitionExample = {
  inputs: { name: { type: "text", required: true } },
  steps: [{ id: "greet", kind: "template", config: { text: "Hello {{inputs.name}}!" } }],
  outputs: { text: "$steps.greet.text" },
};

/** The document of a workflow. It is checked by the kinds of its steps; docs/workflows.md describes it. */
export const Definition = Type.Unsafe<Record<string, unknown>>({
  ...OpenObject,
  description: "The document: inputs, steps, outputs and limits.",
  examples: [definitionExample],
});

const listed = {
  workflow_id: Type.String({ examples: ["greeting"] }),
  name: Type.String({ examples: ["Greeting"] }),
  description: Type.String({ examples: ["Greets a person."] }),
  revision: Type.Integer({ description: "The newest revision; also in the ETag.", examples: [1] }),
  created_at: EpochMs,
  updated_at: EpochMs,
  saved_by: Type.String({ examples: ["ann"] }),
};

/** A workflow in a list. */
export const ListedWorkflow = Type.Object(listed);
/** A workflow with its document. */
export const Workflow = Type.Object({ ...listed, definition: Definition });

const RunStatus = Type.Enum(["queued", "running", "waiting", "cancelling", "cancelled", "succeeded", "failed"], {
  examples: ["succeeded"],
});
const StepStatus = Type.Enum(["pending", "running", "waiting", "succeeded", "failed", "skipped", "cancelled"], {
  examples: ["succeeded"],
});

/** A run of a workflow. */
export const WorkflowRun = Type.Object({
  run_id: Type.String({ examples: [runIdExample] }),
  workflow_id: Type.String({ examples: ["greeting"] }),
  revision: Type.Integer({ examples: [1] }),
  status: RunStatus,
  inputs: Type.Unsafe<Record<string, unknown>>({ ...OpenObject, examples: [{ name: "Ann" }] }),
  outputs: nullable(OpenObject, { examples: [{ text: "Hello Ann!" }] }),
  error: nullable(Type.String({ description: "`code: words`." }), { examples: [null] }),
  version: Type.Integer({ description: "Grows with each change.", examples: [2] }),
  steps: Type.Array(
    Type.Object({
      step_id: Type.String({ examples: ["greet"] }),
      kind: Type.String({ examples: ["template"] }),
      label: nullable(Type.String(), { examples: [null] }),
      status: StepStatus,
      attempt: Type.Integer({ description: "The current try, from 1; 0 before the first.", examples: [1] }),
      thread_id: nullable(Type.String({ description: "The thread of the step's own run." }), { examples: [null] }),
      output: nullable(OpenObject, { examples: [{ text: "Hello Ann!" }] }),
      error: nullable(Type.String(), { examples: [null] }),
      taint: Type.Array(Type.String(), { description: "Untrusted sources of the output.", examples: [[]] }),
      started_at: nullable(EpochMs),
      finished_at: nullable(EpochMs, { examples: [noon + 20] }),
    }),
  ),
  started_by: Type.String({ examples: ["ann"] }),
  cause: Type.Enum(["request", "trigger", "job"], { examples: ["request"] }),
  cost_usd: Type.Number({ description: "Cost of the steps that have ended." }),
  created_at: EpochMs,
  finished_at: nullable(EpochMs, { examples: [noon + 20] }),
});
