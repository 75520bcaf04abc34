import type { Static, TProperties } from "typebox";
import { choice, closed, section } from "../fields/fields.ts";
import { a2a } from "../sections/a2a.ts";
import { anomaly } from "../sections/anomaly.ts";
import { approvals } from "../sections/approvals.ts";
import { artifacts } from "../sections/artifacts.ts";
import { auth } from "../sections/auth.ts";
import { browserTools } from "../sections/browser-tools.ts";
import { clientTools } from "../sections/client-tools.ts";
import { commandScreening } from "../sections/command-screening.ts";
import { containers } from "../sections/containers.ts";
import { contentScreening } from "../sections/content-screening.ts";
import { decider } from "../sections/decider.ts";
import { delegation } from "../sections/delegation.ts";
import { documentTools } from "../sections/document-tools.ts";
import { execution } from "../sections/execution.ts";
import { extensions } from "../sections/extensions.ts";
import { githubPublish } from "../sections/github-publish.ts";
import { governance } from "../sections/governance.ts";
import { guardrails } from "../sections/guardrails.ts";
import { hooks } from "../sections/hooks.ts";
import { httpTools } from "../sections/http-tools.ts";
import { imageTools } from "../sections/image-tools.ts";
import { limits } from "../sections/limits.ts";
import { mcpServers } from "../sections/mcp-servers.ts";
import { memory } from "../sections/memory.ts";
import { metadata } from "../sections/metadata.ts";
import { model } from "../sections/model.ts";
import { network } from "../sections/network.ts";
import { observability } from "../sections/observability.ts";
import { outputSchema } from "../sections/output-schema.ts";
import { outputStyles } from "../sections/output-styles.ts";
import { pattern } from "../sections/pattern.ts";
import { peers } from "../sections/peers.ts";
import { permissions } from "../sections/permissions.ts";
import { planExecute } from "../sections/plan-execute.ts";
import { policies } from "../sections/policies.ts";
import { proceduralMemory } from "../sections/procedural-memory.ts";
import { prompts } from "../sections/prompts.ts";
import { queues } from "../sections/queues.ts";
import { reflect } from "../sections/reflect.ts";
import { sandboxes } from "../sections/sandboxes.ts";
import { searchTools } from "../sections/search-tools.ts";
import { session } from "../sections/session.ts";
import { shellTools } from "../sections/shell-tools.ts";
import { skills } from "../sections/skills.ts";
import { systemPrompt } from "../sections/system-prompt.ts";
import { toolEffects } from "../sections/tool-effects.ts";
import { toolGuidance } from "../sections/tool-guidance.ts";
import { tools } from "../sections/tools.ts";
import { toolsRetrieval } from "../sections/tools-retrieval.ts";
import { workspace } from "../sections/workspace.ts";

/** Every section of `spec`, in the order of its fields and of reported problems. */
export const sections = [
  pattern,
  delegation,
  model,
  systemPrompt,
  prompts,
  outputStyles,
  outputSchema,
  tools,
  workspace,
  toolGuidance,
  toolEffects,
  toolsRetrieval,
  clientTools,
  artifacts,
  skills,
  mcpServers,
  peers,
  containers,
  queues,
  sandboxes,
  shellTools,
  httpTools,
  searchTools,
  documentTools,
  imageTools,
  browserTools,
  githubPublish,
  network,
  memory,
  proceduralMemory,
  session,
  decider,
  reflect,
  planExecute,
  auth,
  policies,
  approvals,
  permissions,
  commandScreening,
  contentScreening,
  guardrails,
  hooks,
  governance,
  limits,
  execution,
  observability,
  anomaly,
  a2a,
  extensions,
] as const;

type Sections = (typeof sections)[number];

/** Every field of a manifest, with its default, its limits and its help. */
export const manifestSchema = closed("An agent of svc.", {
  apiVersion: choice("Version of this schema.", ["svc/v1"], "svc/v1"),
  kind: choice("Kind of document.", ["Agent"], "Agent"),
  metadata,
  spec: section("What the agent does; without it, a minimal react agent.", fieldsOf(sections)),
});

/** A parsed manifest, with all defaults filled in. */
export type Manifest = Static<typeof manifestSchema>;
/** The compiled parts of all sections. */
export type CompiledSections = All<NonNullable<ReturnType<Sections["compile"]>>>;

/** The intersection of the members of a union. */
type All<U> = (U extends unknown ? (member: U) => void : never) extends (all: infer I) => void ? I : never;

function fieldsOf<S extends { readonly fields: TProperties }>(list: readonly S[]): All<S["fields"]> {
  return Object.assign({}, ...list.map(({ fields }) => fields));
}
