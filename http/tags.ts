/** A heading of the API reference, with a sentence about its routes. */
export interface Tag {
  readonly name: string;
  readonly description: string;
}

/** Tag of turns. */
export const chatTag: Tag = { name: "Chat", description: "Turns of a thread, and streams of its events." };
/** Tag of stored threads. */
export const sessionsTag: Tag = { name: "Sessions", description: "Stored threads." };
/** Tag of the routes below /v1. */
export const openAiTag: Tag = {
  name: "OpenAI-compatible",
  description: "The same turns for clients of the OpenAI protocol.",
};
/** Tag of the protocol AG-UI. */
export const aguiTag: Tag = { name: "AG-UI", description: "Turns for front ends that speak the protocol AG-UI." };
/** Tag of durable runs. */
export const durableTag: Tag = {
  name: "Durable runs",
  description: "Turns of manifests with spec.execution.mode durable, which outlive their process.",
};
/** Tag of the manifests of a tenant, and of their tools. */
export const manifestsTag: Tag = { name: "Manifests", description: "The tenant's own manifests and their versions." };
/** Tag of the routes about the server itself. */
export const systemTag: Tag = { name: "System", description: "Probes, metrics, keys and this reference." };
/** Tag of workflows and their runs. */
export const workflowsTag: Tag = {
  name: "Workflows",
  description: "Saved graphs of steps, and their runs.",
};
/** Tag of the datasets and runs of evaluations. */
export const evalsTag: Tag = {
  name: "Evaluations",
  description: "Datasets of questions with rubrics, and runs that score the answers of an agent.",
};
