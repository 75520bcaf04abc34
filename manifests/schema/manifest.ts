import Type, { type Static } from "typebox";
import { auth } from "./auth.ts";
import { decider, outputSchema, planExecute, reflect } from "./decisions.ts";
import { execution, limits } from "./execution.ts";
import { choice, closed, section } from "./fields.ts";
import {
  approvals,
  commandScreening,
  contentScreening,
  governance,
  guardrails,
  hooks,
  permissions,
  policies,
} from "./governance.ts";
import { containers, mcpServers, peers, queues, sandboxes, shellTools } from "./integrations.ts";
import { memory, proceduralMemory } from "./memory.ts";
import { metadata } from "./metadata.ts";
import { model } from "./model.ts";
import { network } from "./network.ts";
import { a2a, anomaly, observability } from "./observability.ts";
import { aggregatorPrompt, delegation, maxTurns, pattern, recursionLimit, subAgents } from "./pattern.ts";
import { outputStyles, prompts, systemPrompt } from "./prompts.ts";
import { session } from "./session.ts";
import { personalSkills, skillAuthoring, skillSuggestion, skills, skillsDeclaredOnly } from "./skills.ts";
import { artifacts, clientTools, toolEffects, toolGuidance, tools, toolsRetrieval, workspace } from "./tools.ts";
import { browserTools, documentTools, githubPublish, httpTools, imageTools, searchTools } from "./web-tools.ts";

/** Every field of a manifest, with its default, its limits and its help. */
export const manifestSchema = closed("An agent of svc.", {
  apiVersion: choice("Version of this schema.", ["svc/v1"], "svc/v1"),
  kind: choice("What is described.", ["Agent"], "Agent"),
  metadata,
  spec: section("What the agent does; left out, a minimal react agent.", {
    pattern,
    sub_agents: subAgents,
    aggregator_prompt: aggregatorPrompt,
    delegation,
    max_turns: maxTurns,
    recursion_limit: recursionLimit,
    model,
    system_prompt: systemPrompt,
    prompts,
    output_styles: outputStyles,
    output_schema: outputSchema,
    tools,
    workspace,
    tool_guidance: toolGuidance,
    tool_effects: toolEffects,
    tools_retrieval: toolsRetrieval,
    client_tools: clientTools,
    artifacts,
    skills,
    skills_declared_only: skillsDeclaredOnly,
    personal_skills: personalSkills,
    skill_authoring: skillAuthoring,
    skill_suggestion: skillSuggestion,
    mcp_servers: mcpServers,
    peers,
    containers,
    queues,
    sandboxes,
    shell_tools: shellTools,
    http_tools: httpTools,
    search_tools: searchTools,
    document_tools: documentTools,
    image_tools: imageTools,
    browser_tools: browserTools,
    github_publish: githubPublish,
    network,
    memory,
    procedural_memory: proceduralMemory,
    session,
    decider,
    reflect,
    plan_execute: planExecute,
    auth,
    policies,
    approvals,
    permissions,
    command_screening: commandScreening,
    content_screening: contentScreening,
    guardrails,
    hooks,
    governance,
    limits,
    execution,
    observability,
    anomaly,
    a2a,
    extensions: Type.Unsafe<Record<string, unknown>>({
      type: "object",
      description: "Free values for plugins, a key for each.",
      default: {},
    }),
  }),
});

/** A parsed manifest: every default filled in. */
export type Manifest = Static<typeof manifestSchema>;
/** The part of a manifest that says what the agent is. */
export type ManifestSpec = Manifest["spec"];
