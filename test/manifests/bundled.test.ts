// The bundled manifests and their fields. test/spec/examples.test.ts runs some of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { bundledManifests } from "../../manifests/sources/files.ts";
import { bundledNames } from "../support/bundled-manifests.ts";

const layer = bundledManifests();
const compacting = { reserve_tokens: 16_384, keep_recent_tokens: 20_000, context_window_tokens: 128_000 };
const capture = { enabled: true, model: "claude-haiku", max_facts: 3, min_chars: 200, verify: false };

/** The bundled manifest of this name. */
function bundled(name: string) {
  const found = layer.get(name);
  assert.ok(found !== null, name);
  return found;
}

/** Asserts that the object has these fields, with these values. */
function has(object: object, fields: object): void {
  const picked = Object.fromEntries(Object.keys(fields).map((key) => [key, Reflect.get(object, key)]));
  assert.deepEqual(picked, fields);
}

/** The approval rules as [id, tools, when_args, ttl_seconds]; none allows unattended calls. */
function gates(name: string) {
  return bundled(name).spec.approvals.map(({ id, tools, when_args, ttl_seconds, allow_unattended }) => {
    assert.equal(allow_unattended, false, id);
    return [id, tools, when_args, ttl_seconds];
  });
}

test("every bundled manifest has a version, words and tags, and the defaults of storage", () => {
  assert.deepEqual([...layer.names()].sort(), bundledNames);
  for (const name of bundledNames) {
    const { metadata, spec } = bundled(name);
    has(metadata, { name, version: "1.0.0" });
    assert.ok(metadata.description !== "" && metadata.tags.includes("bundled"), name);
    has(spec.memory, { checkpointer: "postgres", store: "pgvector" });
    assert.deepEqual([spec.model.temperature, spec.observability.trace], [0, true], name);
  }
});

test("only manifests that neither write nor fetch from any host allow anonymous callers", () => {
  const open = bundledNames.filter((name) => bundled(name).spec.auth.inbound.allow_anonymous);

  assert.deepEqual(open, ["decider-support", "hybrid-router", "oss-only", "quick", "router", "support"]);
  for (const name of open) {
    const { memory, http_tools, github_publish, tools } = bundled(name).spec;
    assert.deepEqual(
      [memory.capture.enabled, memory.recall.tools, http_tools, github_publish],
      [false, false, [], null],
    );
    assert.ok(!tools.includes("write_file"), name);
  }
});

test("governed has every control switched on", () => {
  const { spec } = bundled("governed");

  assert.deepEqual(spec.tools, ["calculator", "list_skills", "activate_skill", "deactivate_skill"]);
  has(spec.session, { strategy: "compacting", ...compacting });
  assert.deepEqual([spec.memory.capture, spec.memory.recall], [capture, { tools: true, limit: 5 }]);
  const inbound = { allow_anonymous: false, schemes: ["jwt", "api_key"], required_scopes: ["chat:write"] };
  has(spec.auth.inbound, inbound);
  has(spec.policies[0] ?? {}, { id: "calc-scope", tools: ["calculator"], required_scopes: ["tools:calc"] });
  has(spec.limits, { max_tool_calls: 100, max_wall_clock_seconds: 600 });
  assert.deepEqual(gates("governed"), [
    ["skill-activate", ["activate_skill"], [], 600],
    ["memory-forget", ["forget"], [], 600],
    ["memory-retopic", ["remember"], ["topic_key"], 600],
  ]);
  has(spec.content_screening, { enabled: true, on_flag: "quarantine" });
  has(spec.command_screening, { enabled: true, include_defaults: true });
  has(spec.guardrails, { providers: ["pii"], targets: ["input", "output"] });
  assert.equal(spec.anomaly.enabled, true);
  assert.deepEqual(spec.governance, {
    ...{ frameworks: ["soc2", "eu_ai_act"], risk_tier: "limited", transparency_notice: true },
    ...{ forbid_plaintext_secrets: true, pin_compile: true, retention_days: 30 },
  });
});

test("assistant remembers, and forgets after a person has approved it", () => {
  const { spec } = bundled("assistant");

  assert.equal(spec.model.cache, true);
  has(spec.session, { strategy: "compacting", ...compacting });
  assert.deepEqual([spec.memory.capture, spec.memory.recall], [capture, { tools: true, limit: 5 }]);
  assert.deepEqual(gates("assistant"), [["memory-forget", ["forget"], [], 600]]);
  assert.equal(spec.auth.inbound.allow_anonymous, false);
});

test("decider-support uses the decider at every choice that one can make", () => {
  const { spec } = bundled("decider-support");

  assert.deepEqual(spec.decider, { id: "clef", min_confidence: 0.5 });
  has(spec.model, { id: "claude-haiku", cache: true });
  has(spec.model.confidence_escalation, { enabled: true, escalate_to: "claude-sonnet", decider: true });
  has(spec.tools_retrieval, { enabled: true, top_k: 4, decider: true });
  has(spec.content_screening, { enabled: true, on_flag: "quarantine", decider: true });
  assert.deepEqual([spec.skill_suggestion.enabled, spec.artifacts.enabled], [true, true]);
});

test("cowork works on files for an hour, and asks before it changes anything", () => {
  const { spec } = bundled("cowork");

  has(spec.limits, { max_tool_calls: 200, max_wall_clock_seconds: 3600 });
  has(spec.session, { strategy: "compacting", ...compacting });
  assert.equal(spec.execution.mode, "durable");
  assert.deepEqual(gates("cowork"), [
    ["workspace-write", ["write_file", "edit_file"], [], 600],
    ["client-shell", ["local_shell"], [], 600],
  ]);
});

test("contributor publishes only what a person has approved, and triage changes nothing", () => {
  const { spec } = bundled("contributor");
  const { tools, github_publish, output_schema } = bundled("triage").spec;

  assert.equal(spec.github_publish?.auth, "secret:CONTRIBUTOR_TOKEN");
  assert.equal(spec.github_publish?.allow_workflows, false);
  assert.deepEqual(gates("contributor"), [["pull-request", ["publish_commits"], [], 3600]]);
  assert.equal(spec.execution.mode, "durable");
  assert.deepEqual(tools, ["trigger_event", "list_dir", "read_file", "search_files", "glob"]);
  assert.equal(github_publish, null);
  assert.ok(output_schema !== null);
});
