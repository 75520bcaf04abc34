import type { ModelCard } from "../../bus/protocol/manifests.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { thinkingLevelsOf } from "../models/thinking.ts";

/** Returns the entry of GET /v1/models for an agent. */
export function modelCard(agent: CompiledAgent): ModelCard {
  const { metadata, spec } = agent.manifest;
  const { route, vision, price } = agent.model;
  return {
    description: metadata.description,
    allowAnonymous: agent.inbound.allow_anonymous,
    tags: metadata.tags,
    contextWindow: route.context_window,
    providerModel: route.model,
    // A turn with an image uses the vision route.
    modalities:
      vision === null || route.modalities.includes("image") ? route.modalities : [...route.modalities, "image"],
    supportedThinkingLevels: thinkingLevelsOf(route),
    cost: price && {
      inputPerMillion: price.input,
      outputPerMillion: price.output,
      cacheReadPerMillion: price.cache_read,
      cacheWritePerMillion: price.cache_write,
    },
    starters: metadata.starters,
    greeting: metadata.greeting,
    // The names as declared, in the order of the manifest.
    commands: spec.prompts
      .filter((prompt) => agent.prompts.get(prompt.name.toLowerCase())?.command === true)
      .map(({ name, description, argument_hint }) => ({ name, description, argumentHint: argument_hint })),
    outputStyles: spec.output_styles.styles.map(({ name, description }) => ({ name, description })),
    defaultOutputStyle: agent.defaultOutputStyle?.name ?? null,
    workspace: {
      tools: agent.tools.some((tool) => tool.workspace) ? "server" : "none",
      scope: agent.workspaceScope,
    },
  };
}
