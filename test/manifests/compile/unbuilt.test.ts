import assert from "node:assert/strict";
import { test } from "node:test";
import { unbuiltDefaults, unbuiltProblems } from "../../../manifests/compile/unbuilt.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { type Manifest, manifestSchema } from "../../../manifests/schema/manifest.ts";
import {
  agent,
  compileProblems,
  compileSpec,
  fullValue,
  isMap,
  nodeOf,
  nodesOf,
  type SchemaNode,
  type Steps,
  types,
  valueAt,
  withValue,
} from "../support.ts";

/** Every field of spec that this version implements. A change that implements a field adds it here. */
const built = [
  "spec.github_publish",
  "spec.governance.frameworks",
  "spec.governance.risk_tier",
  "spec.governance.transparency_notice",
  "spec.governance.forbid_plaintext_secrets",
  "spec.governance.pin_compile",
  "spec.governance.retention_days",
  // A specified field without an implementation is refused (PAT-001); a plugin's is not.
  "spec.pattern",
  "spec.recursion_limit",
  "spec.output_schema",
  "spec.sub_agents",
  "spec.aggregator_prompt",
  "spec.max_turns",
  "spec.reflect.verifier_model",
  "spec.reflect.threshold",
  "spec.reflect.max_iterations",
  "spec.reflect.criteria",
  "spec.reflect.decider",
  "spec.command_screening.enabled",
  "spec.command_screening.include_defaults",
  "spec.command_screening.rules",
  "spec.command_screening.target_tools",
  "spec.command_screening.approval_ttl_seconds",
  "spec.content_screening.enabled",
  "spec.content_screening.model",
  "spec.content_screening.decider",
  "spec.content_screening.model_tools",
  "spec.content_screening.image_model",
  "spec.content_screening.tools",
  "spec.content_screening.on_flag",
  "spec.decider.id",
  "spec.decider.min_confidence",
  "spec.plan_execute.planner_model",
  "spec.plan_execute.executor_model",
  "spec.plan_execute.max_subtasks",
  "spec.plan_execute.replan_on_failure",
  "spec.plan_execute.max_replans",
  "spec.plan_execute.executor_recursion_limit",
  "spec.session.branch_summary",
  "spec.session.clear_tool_results",
  "spec.session.compact_after_turn",
  "spec.session.compaction_enabled",
  "spec.session.context_window_tokens",
  "spec.session.keep_recent_tokens",
  "spec.session.reserve_tokens",
  "spec.session.follow_up_mode",
  "spec.session.steering_mode",
  "spec.session.strategy",
  "spec.model.id",
  "spec.model.temperature",
  "spec.model.vision_model",
  "spec.network.allow_hosts",
  "spec.network.credentials",
  "spec.model.max_tokens",
  "spec.model.cache",
  "spec.model.thinking_budget",
  "spec.model.thinking_level",
  "spec.model.fallbacks",
  "spec.model.confidence_escalation.enabled",
  "spec.model.confidence_escalation.escalate_to",
  "spec.model.confidence_escalation.low_confidence_markers",
  "spec.model.confidence_escalation.min_response_chars",
  "spec.model.confidence_escalation.decider",
  "spec.model.price.input",
  "spec.model.price.output",
  "spec.model.price.cache_read",
  "spec.model.price.cache_write",
  "spec.system_prompt.inline",
  "spec.system_prompt.soul",
  "spec.system_prompt.base",
  "spec.system_prompt.files",
  "spec.system_prompt.system_md",
  "spec.system_prompt.append_system_md",
  "spec.system_prompt.include_tool_guidance",
  "spec.prompts",
  "spec.output_styles.default",
  "spec.output_styles.styles",
  "spec.tools",
  "spec.workspace.scope",
  "spec.tool_guidance",
  "spec.client_tools",
  "spec.queues",
  "spec.a2a.capabilities",
  "spec.a2a.publish",
  "spec.peers",
  "spec.delegation",
  "spec.tool_effects",
  "spec.skills",
  "spec.skills_declared_only",
  "spec.personal_skills",
  "spec.skill_authoring.enabled",
  "spec.skill_authoring.mode",
  "spec.skill_authoring.max_pending",
  "spec.skill_authoring.auto_eval",
  "spec.skill_suggestion.enabled",
  "spec.skill_suggestion.shortlist",
  "spec.skill_suggestion.min_gate",
  "spec.skill_suggestion.min_fit",
  "spec.tools_retrieval.enabled",
  "spec.tools_retrieval.top_k",
  "spec.tools_retrieval.model",
  "spec.tools_retrieval.decider",
  "spec.auth.inbound.schemes",
  "spec.auth.inbound.required_scopes",
  "spec.auth.inbound.allow_anonymous",
  "spec.auth.outbound.providers",
  "spec.policies",
  "spec.approvals",
  "spec.hooks",
  "spec.guardrails.providers",
  "spec.guardrails.block_on_match",
  "spec.guardrails.targets",
  "spec.guardrails.judges",
  "spec.anomaly.enabled",
  "spec.anomaly.min_volume",
  "spec.anomaly.min_rate",
  "spec.anomaly.baseline_factor",
  "spec.permissions.default_mode",
  "spec.permissions.allowed_modes",
  "spec.permissions.read_only_tools",
  "spec.permissions.edit_tools",
  "spec.artifacts.enabled",
  "spec.artifacts.threshold_chars",
  "spec.artifacts.preview_chars",
  "spec.artifacts.default_window_chars",
  "spec.artifacts.max_window_chars",
  "spec.http_tools",
  "spec.search_tools",
  "spec.browser_tools",
  "spec.document_tools",
  "spec.memory.checkpointer",
  "spec.memory.store",
  "spec.memory.scope",
  "spec.memory.capture.enabled",
  "spec.memory.capture.model",
  "spec.memory.capture.max_facts",
  "spec.memory.capture.min_chars",
  "spec.memory.capture.verify",
  "spec.memory.recall.tools",
  "spec.memory.recall.limit",
  "spec.memory.consolidate.enabled",
  "spec.memory.consolidate.model",
  "spec.memory.consolidate.after_facts",
  "spec.memory.consolidate.max_facts",
  "spec.procedural_memory.enabled",
  "spec.procedural_memory.top_k",
  "spec.mcp_servers",
  "spec.image_tools",
  "spec.shell_tools",
  "spec.containers",
  "spec.sandboxes",
  "spec.limits.max_tool_calls",
  "spec.limits.max_wall_clock_seconds",
  "spec.limits.max_peer_hops",
  "spec.limits.max_input_tokens",
  "spec.limits.max_output_tokens",
  "spec.limits.max_cost_usd",
  "spec.limits.precount",
  "spec.execution.mode",
  "spec.execution.webhooks",
  "spec.execution.resume_token_ttl_seconds",
  "spec.execution.tools",
  "spec.observability.trace",
  "spec.observability.metrics",
  "spec.extensions",
];

/** The values of a manifest at one path: lists, maps and nullable objects count as one field. */
function settings(node: SchemaNode, path: Steps = []): { node: SchemaNode; path: Steps }[] {
  if (node.properties === undefined || types(node).includes("null") || isMap(node)) return [{ node, path }];
  return Object.entries(node.properties).flatMap(([key, field]) => settings(field, [...path, key]));
}

function otherThan(node: SchemaNode, byDefault: unknown): unknown {
  if (typeof byDefault === "boolean") return !byDefault;
  if (node.enum) return node.enum.find((word) => word !== byDefault && word !== null);
  if (typeof byDefault === "number") return byDefault + 1;
  if (typeof byDefault === "string") return `${byDefault}x`;
  if (Array.isArray(byDefault) && byDefault.length > 0) return byDefault.slice(1);
  return fullValue(node);
}

test("each field of spec is implemented, or refused as unsupported at its own path", () => {
  const defaults = parseManifest(agent());
  const fields = settings(nodeOf(manifestSchema)).filter(({ path }) => path[0] === "spec");
  const accepted: string[] = [];

  for (const { node, path } of fields) {
    const changed = withValue(defaults, path, otherThan(node, valueAt(defaults, path)));
    const problems = unbuiltProblems(changed as Manifest);

    if (problems.length === 0) accepted.push(path.join("."));
    else {
      const loc = isMap(node) && !types(node).includes("null") ? [...path, "key"] : path;
      const msg = `${loc.join(".")} is not supported by this version.`;
      assert.deepEqual(problems, [{ loc, msg, type: "unsupported" }]);
    }
  }

  assert.deepEqual(accepted.toSorted(), built.toSorted());
});

test("the defaults compile, and written defaults compile like left-out ones", () => {
  const written = parseManifest(agent()).spec;

  assert.deepEqual(compileProblems({}), []);
  assert.deepEqual(compileProblems(written), []);
});

test("every strategy is implemented", () => {
  assert.deepEqual(compileSpec({ session: { strategy: "windowed:24" } }).session, { kind: "windowed", messages: 24 });
  assert.deepEqual(compileSpec({}).session, { kind: "full_replay" });
  assert.deepEqual(compileSpec({ session: { strategy: "compacting" } }).session, { kind: "compacting" });
  for (const kind of ["summarizing", "semantic"])
    assert.deepEqual(compileSpec({ session: { strategy: `${kind}:4` } }).session, { kind, messages: 4 });
});

test("an unsupported field is reported at its own path", () => {
  const problems = compileProblems({ procedural_memory: { embedding_model: "another" } });

  assert.deepEqual(problems, ["unsupported spec.procedural_memory.embedding_model"]);
});

test("each default of a missing behaviour is a field of the schema, and is described", () => {
  const paths = new Set([...nodesOf(nodeOf(manifestSchema))].map(({ path }) => path.join(".")));

  for (const { path, note } of unbuiltDefaults) {
    assert.ok(paths.has(path), path);
    assert.ok(!built.includes(path), path);
    assert.match(note, /\.$/);
  }
});
