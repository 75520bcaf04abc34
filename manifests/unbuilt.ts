import { isDeepStrictEqual } from "node:util";
import { parseManifest } from "./parse.ts";
import { type Path, type Problem, writePath } from "./problems.ts";
import type { Manifest } from "./schema/manifest.ts";

// Fields that are parsed and checked but that nothing carries out yet. A manifest that sets one is refused, so that nothing is
// silently left undone. Who builds a behaviour takes its line out of here.

interface UnbuiltField {
  /** A field, or a section with all that is in it. */
  readonly path: string;
  /** Values besides the default that do work, and how documents call them. */
  readonly built?: { readonly words: string; readonly holds: (value: unknown) => boolean };
}

/** Every field that is refused when it differs from its default. */
export const unbuiltFields: readonly UnbuiltField[] = [
  { path: "spec.pattern" },
  { path: "spec.sub_agents" },
  { path: "spec.aggregator_prompt" },
  { path: "spec.delegation" },
  { path: "spec.max_turns" },
  { path: "spec.model.cache" },
  { path: "spec.model.thinking_budget" },
  { path: "spec.model.thinking_level" },
  { path: "spec.model.vision_model" },
  { path: "spec.model.confidence_escalation" },
  { path: "spec.output_styles" },
  { path: "spec.output_schema" },
  { path: "spec.tool_effects" },
  { path: "spec.tools_retrieval" },
  { path: "spec.client_tools" },
  { path: "spec.artifacts" },
  { path: "spec.skills" },
  { path: "spec.skills_declared_only" },
  { path: "spec.personal_skills" },
  { path: "spec.skill_authoring" },
  { path: "spec.skill_suggestion" },
  { path: "spec.mcp_servers" },
  { path: "spec.peers" },
  { path: "spec.containers" },
  { path: "spec.queues" },
  { path: "spec.sandboxes" },
  { path: "spec.shell_tools" },
  { path: "spec.http_tools" },
  { path: "spec.search_tools" },
  { path: "spec.document_tools" },
  { path: "spec.image_tools" },
  { path: "spec.browser_tools" },
  { path: "spec.github_publish" },
  { path: "spec.network" },
  { path: "spec.memory" },
  { path: "spec.procedural_memory" },
  {
    path: "spec.session.strategy",
    built: { words: "windowed:N", holds: (value) => typeof value === "string" && value.startsWith("windowed:") },
  },
  { path: "spec.session.compaction_enabled" },
  { path: "spec.session.reserve_tokens" },
  { path: "spec.session.keep_recent_tokens" },
  { path: "spec.session.context_window_tokens" },
  { path: "spec.session.steering_mode" },
  { path: "spec.session.follow_up_mode" },
  { path: "spec.session.branch_summary" },
  { path: "spec.session.compact_after_turn" },
  { path: "spec.session.clear_tool_results" },
  { path: "spec.decider" },
  { path: "spec.reflect" },
  { path: "spec.plan_execute" },
  { path: "spec.approvals" },
  { path: "spec.permissions" },
  { path: "spec.command_screening" },
  { path: "spec.content_screening" },
  { path: "spec.guardrails" },
  { path: "spec.hooks" },
  { path: "spec.governance" },
  { path: "spec.limits.precount" },
  { path: "spec.execution.mode" },
  { path: "spec.execution.resume_token_ttl_seconds" },
  { path: "spec.execution.webhooks" },
  { path: "spec.anomaly" },
  { path: "spec.a2a" },
];

/** Defaults that promise something which nothing carries out yet: accepted, and told by validate-manifest and the documents. */
export const unbuiltDefaults: readonly { readonly path: string; readonly note: string }[] = [
  {
    path: "spec.session.compaction_enabled",
    note: "true, but no conversation is compacted; windowed:N bounds its length.",
  },
  { path: "spec.session.branch_summary", note: "true, but a branch that is left is not summed up." },
  { path: "spec.memory.store", note: "pgvector, but no facts are captured or recalled." },
  { path: "spec.anomaly.enabled", note: "true, but the rate of failures is not watched." },
  { path: "spec.permissions", note: "Conversations have no permission modes; every one is in mode default." },
  { path: "spec.model.vision_model", note: "null, but SVC_DEFAULT_VISION_MODEL_ID is not used either." },
  { path: "spec.a2a.publish", note: "true, but no agent card is served." },
];

/** A problem for each unbuilt field that differs from its default, told at the innermost field that differs. */
export function unbuiltProblems(manifest: Manifest): Problem[] {
  defaults ??= parseManifest({ metadata: { name: "defaults" } });
  return unbuiltFields.flatMap(({ path, built }) => {
    const loc = path.split(".");
    const value = at(manifest, loc);
    if (built?.holds(value)) return [];
    return differences(value, at(defaults, loc), loc).map((where) => ({
      loc: where,
      msg: `${writePath(where)} is not supported by this version.`,
      type: "unsupported" as const,
    }));
  });
}

let defaults: Manifest | undefined;

function at(value: unknown, path: readonly string[]): unknown {
  return path.reduce((inner, key) => (inner as Record<string, unknown>)[key], value);
}

function differences(value: unknown, byDefault: unknown, loc: Path): Path[] {
  if (isDeepStrictEqual(value, byDefault)) return [];
  if (!isObject(value) || !isObject(byDefault)) return [loc];
  const keys = Object.keys(value);
  return keys.flatMap((key) => differences(value[key], byDefault[key], [...loc, key]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
