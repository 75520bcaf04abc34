import assert from "node:assert/strict";
import { test } from "node:test";
import { manifestSchema } from "../../manifests/schema/manifest.ts";
import { limitBounds } from "../../manifests/sections/limits.ts";
import { agent, compileSpec, fullManifest, parseProblems, withValue } from "../manifests/support.ts";

const text = (length: number) => "a".repeat(length);
const many = (count: number, item: unknown) => Array.from({ length: count }, () => item);
const entries = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`key${at}`, value]));

const full = fullManifest(manifestSchema);
const steps = (path: string) => path.split(".").map((step) => (/^\d+$/.test(step) ? Number(step) : step));

/** Kinds of problem that a single field can cause. */
const ofOneField = ["too_long", "too_short", "out_of_range", "pattern", "enum", "type_error"];

function takes(path: string, values: readonly unknown[]): void {
  for (const value of values) {
    const problems = parseProblems(withValue(full, steps(path), value));
    for (const type of ofOneField)
      assert.ok(
        !problems.includes(`${type} ${path}`),
        `${path} takes ${JSON.stringify(value).slice(0, 60)}: ${problems}`,
      );
  }
}

function refuses(path: string, type: string, values: readonly unknown[]): void {
  for (const value of values) {
    const problems = parseProblems(withValue(full, steps(path), value));
    assert.ok(
      problems.includes(`${type} ${path}`),
      `${path} refuses ${JSON.stringify(value).slice(0, 60)}: ${problems}`,
    );
  }
}

/** Checks a number with these bounds, both included. */
function between(path: string, least: number, most: number, step = 1): void {
  takes(path, [least, most]);
  refuses(path, "out_of_range", [least - step, most + step]);
}

function atLeast(path: string, least: number, step = 1): void {
  takes(path, [least, least + 1, 1_000_000_000]);
  refuses(path, "out_of_range", [least - step]);
}

/** Checks a text with a length between these bounds. */
function textUpTo(path: string, most: number, least = 1): void {
  takes(path, [text(least), text(most)]);
  refuses(path, "too_long", [text(most + 1)]);
  if (least > 0) refuses(path, "too_short", [text(least - 1)]);
}

function listUpTo(path: string, most: number, item: unknown, least = 0): void {
  takes(path, [many(least, item), many(most, item)]);
  refuses(path, "too_long", [many(most + 1, item)]);
  if (least > 0) refuses(path, "too_short", [many(least - 1, item)]);
}

test("SPEC-004 metadata.name is 1 to 128 letters, digits, . _ and -", () => {
  takes("metadata.name", ["x", text(128), "A.b_c-9", "...", ".x"]);
  refuses("metadata.name", "too_long", [text(129)]);
  refuses("metadata.name", "too_short", [""]);
  refuses("metadata.name", "pattern", ["a/b", "a b", "ü", ".", "..", "a\n", "a:b", ""]);
  refuses("metadata.name", "type_error", [null, 5]);
});

test("SPEC-009 metadata.starters has up to 8 entries, titles up to 60 and prompts up to 2000", () => {
  listUpTo("metadata.starters", 8, { title: "t", prompt: "p" });
  textUpTo("metadata.starters.0.title", 60);
  textUpTo("metadata.starters.0.prompt", 2000);
});

test("SPEC-010 metadata.greeting has a headline up to 80 and an optional subtitle up to 300", () => {
  takes("metadata.greeting", [null, { headline: "h" }]);
  textUpTo("metadata.greeting.headline", 80);
  textUpTo("metadata.greeting.subtitle", 300);
  // Lengths count characters, not UTF-16 units.
  takes("metadata.greeting.headline", ["😀".repeat(80)]);
  refuses("metadata.greeting.headline", "too_long", ["😀".repeat(81)]);
});

test("SPEC-014 model.thinking_budget is 128 to 64000 or null", () => {
  takes("spec.model.thinking_budget", [null]);
  between("spec.model.thinking_budget", 128, 64_000);
  refuses("spec.model.thinking_budget", "type_error", [128.5, "128"]);
});

test("SPEC-031 a prompt has a name to 64, description to 200, hint to 80, and a body or a file", () => {
  textUpTo("spec.prompts.0.name", 64);
  takes("spec.prompts.0.name", ["two words", "größe"]);
  textUpTo("spec.prompts.0.description", 200, 0);
  textUpTo("spec.prompts.0.argument_hint", 80, 0);
  takes("spec.prompts.0.body", ["", text(100_000)]);
  takes("spec.prompts.0.file", [null, "a.md", "a/b_c-d~e.md", text(200)]);
  const outside = ["/a", "a/", "a//b", "../a", "a/../b", "./a", "a/.", "a b", "a\\b", text(201)];
  refuses("spec.prompts.0.file", "pattern", outside);
  refuses("spec.prompts.0.file", "too_long", [`${text(200)}/${text(200)}/${text(200)}`]);
});

test("SPEC-033 output_styles has at most 16 styles with names that differ, ignoring case", () => {
  const style = (name: string) => ({ name, prompt: "p" });
  const sixteen = Array.from({ length: 16 }, (_, at) => style(`s${at}`));

  assert.deepEqual(parseProblems(agent({ output_styles: { styles: sixteen } })), []);
  assert.deepEqual(parseProblems(agent({ output_styles: { styles: [...sixteen, style("s16")] } })), [
    "too_long spec.output_styles.styles",
  ]);
  assert.deepEqual(parseProblems(agent({ output_styles: { styles: [style("Short"), style("shorT")] } })), [
    "conflict spec.output_styles.styles.1.name",
  ]);
  assert.deepEqual(parseProblems(agent({ output_styles: { default: "short", styles: [style("short")] } })), []);
  assert.deepEqual(parseProblems(agent({ output_styles: { default: "SHORT", styles: [style("short")] } })), []);
  assert.deepEqual(parseProblems(agent({ output_styles: { default: "long", styles: [style("short")] } })), [
    "conflict spec.output_styles.default",
  ]);
});

test("SPEC-034 a style has a name up to 64, a description up to 200, a prompt up to 16000", () => {
  textUpTo("spec.output_styles.styles.0.name", 64);
  refuses("spec.output_styles.styles.0.name", "pattern", ["a b", "a.b", "ü"]);
  textUpTo("spec.output_styles.styles.0.description", 200, 0);
  textUpTo("spec.output_styles.styles.0.prompt", 16_000);
});

test("SPEC-038 network.allow_hosts is null or a list of at most 64", () => {
  takes("spec.network.allow_hosts", [null]);
  listUpTo("spec.network.allow_hosts", 64, "a.example");
  listUpTo("spec.network.credentials", 64, "a");
});

test("SPEC-052 max_turns is at most 100", () => {
  between("spec.max_turns", 1, 100);
});

test("SPEC-053 recursion_limit is at most 50", () => {
  between("spec.recursion_limit", 1, 50);
});

test("SPEC-057 execution.webhooks is at most 8 well-formed ids, for durable runs only", () => {
  listUpTo("spec.execution.webhooks", 8, "a");
  takes("spec.execution.webhooks.0", ["a_b-9", "0", text(64)]);
  refuses("spec.execution.webhooks.0", "pattern", [text(65), "A", "a.b", "_a", "-a", "", "a b"]);
  assert.deepEqual(parseProblems(agent({ execution: { webhooks: ["a"] } })), ["conflict spec.execution.webhooks"]);
  assert.deepEqual(parseProblems(agent({ execution: { mode: "durable", webhooks: ["a"] } })), []);
});

test("SESS-027 session.steering_mode and follow_up_mode are all or one-at-a-time", () => {
  for (const path of ["spec.session.steering_mode", "spec.session.follow_up_mode"]) {
    takes(path, ["all", "one-at-a-time"]);
    refuses(path, "enum", ["one", "", "ALL"]);
  }
});

test("GOV-027 an unset limit is the specified bound, and a value above the ceiling is refused", () => {
  const unset = {
    max_tool_calls: 500,
    max_wall_clock_seconds: 3600,
    max_peer_hops: 5,
    max_input_tokens: 1_000_000,
    max_output_tokens: 100_000,
    max_cost_usd: 1000,
  };
  const ceilings = { ...unset, max_input_tokens: 20_000_000 };

  assert.deepEqual(compileSpec({}).limits, unset);
  assert.deepEqual(compileSpec({ limits: ceilings }).limits, ceilings);
  for (const [name, ceiling] of Object.entries(ceilings)) {
    const path = `spec.limits.${name}`;
    const step = name === "max_cost_usd" ? 0.01 : 1;
    takes(path, [null, ceiling, ceiling - step]);
    refuses(path, "out_of_range", [ceiling + step, -1, Number.MAX_SAFE_INTEGER]);
    refuses(path, "type_error", ["unlimited", true]);
    assert.equal(compileSpec({ limits: { [name]: 1 } }).limits[name as keyof typeof unset], 1);
  }
  assert.deepEqual(Object.keys(limitBounds), Object.keys(ceilings));
});

test("the model's fields keep their limits", () => {
  textUpTo("spec.model.id", 256);
  between("spec.model.temperature", 0, 2, 0.01);
  atLeast("spec.model.max_tokens", 1);
  atLeast("spec.model.confidence_escalation.min_response_chars", 0);
  for (const key of ["input", "output", "cache_read", "cache_write"]) atLeast(`spec.model.price.${key}`, 0, 0.01);
  assert.deepEqual(parseProblems(agent({ model: { price: { inputs: 1 } } })), [
    "extra_forbidden spec.model.price.inputs",
  ]);
});

test("the system prompt's fields keep their limits", () => {
  for (const key of ["inline", "base", "system_md", "append_system_md"])
    textUpTo(`spec.system_prompt.${key}`, 200_000, 0);
  refuses("spec.system_prompt.files.0", "pattern", ["../a", "/a", "a//b"]);
});

test("the session's fields keep their limits", () => {
  const good = ["full_replay", "compacting", "windowed:1", "windowed:1000", "summarizing:24", "semantic:999"];
  const bad = [
    "",
    "windowed",
    "windowed:0",
    "windowed:1001",
    "windowed:01",
    "windowed:-1",
    "windowed:1.5",
    "full_replay:1",
    "Windowed:1",
    "windowed:1\n",
  ];
  takes("spec.session.strategy", good);
  refuses("spec.session.strategy", "pattern", bad);
  atLeast("spec.session.context_window_tokens", 1024);
  atLeast("spec.session.reserve_tokens", 0);
  atLeast("spec.session.keep_recent_tokens", 0);
  takes("spec.session.clear_tool_results", [null]);
  between("spec.session.clear_tool_results.keep_turns", 1, 1000);
  atLeast("spec.session.clear_tool_results.min_chars", 0);
});

test("the memory's fields keep their limits", () => {
  between("spec.memory.capture.max_facts", 1, 20);
  atLeast("spec.memory.capture.min_chars", 0);
  between("spec.memory.recall.limit", 1, 50);
  atLeast("spec.memory.consolidate.after_facts", 10);
  between("spec.memory.consolidate.max_facts", 1, 500);
  refuses("spec.memory.store", "enum", ["agentcore", "vectorize"]);
  atLeast("spec.procedural_memory.top_k", 1);
});

test("tools and skills keep their limits", () => {
  atLeast("spec.tools_retrieval.top_k", 1);
  between("spec.skill_authoring.max_pending", 1, 200);
  between("spec.skill_suggestion.shortlist", 1, 10);
  between("spec.skill_suggestion.min_gate", 0, 1, 0.01);
  between("spec.skill_suggestion.min_fit", 0, 1, 0.01);
  takes("spec.tool_guidance.key", [text(500)]);
  refuses("spec.tool_guidance.key", "too_long", [text(501)]);
  refuses("spec.tool_guidance.key", "too_short", [""]);
  refuses("spec.tool_guidance.key", "pattern", ["a\nb", "a\r"]);
  takes("spec.tool_guidance", [entries(64, "line")]);
  refuses("spec.tool_guidance", "too_long", [entries(65, "line")]);
  takes("spec.tool_effects", [entries(64, "read")]);
  refuses("spec.tool_effects", "too_long", [entries(65, "read")]);
  takes("spec.tool_effects.key", ["read", "idempotent", "once", { effect: "once" }, { risk: "speaks" }]);
  refuses("spec.tool_effects.key", "pattern", ["reads", "", "read\n"]);
  refuses("spec.tool_effects.key", "type_error", [null, 5, ["read"]]);
  refuses("spec.skills.0.name", "pattern", ["A", "a--b", "-a", "a-", "a_b"]);
  textUpTo("spec.skills.0.name", 64);
  takes("spec.client_tools.0.timeout_seconds", [null, 0.5, 3600]);
  refuses("spec.client_tools.0.timeout_seconds", "out_of_range", [0, 3600.5]);
});

test("integrations keep their limits", () => {
  for (const field of [
    "mcp_servers",
    "peers",
    "containers",
    "sandboxes",
    "shell_tools",
    "http_tools",
    "browser_tools",
  ]) {
    takes(`spec.${field}.0.timeout_ms`, [null]);
    between(`spec.${field}.0.timeout_ms`, 1, 3_600_000);
  }
  between("spec.queues.0.deadline_ms", 1, 3_600_000);
  between("spec.http_tools.0.max_bytes", 1, 5_000_000);
  between("spec.search_tools.0.max_results", 1, 20);
  between("spec.document_tools.0.max_results", 1, 10);
  between("spec.delegation.max_background", 1, 16);
  listUpTo("spec.delegation.agents", 64, { name: "y" }, 1);
  listUpTo("spec.shell_tools.0.commands", 64, "ls", 1);
  refuses("spec.github_publish.repo", "pattern", ["a", "a/b/c", "/b", "a b/c"]);
});

test("lists of references hold at most 64 entries", () => {
  for (const field of [
    "mcp_servers",
    "peers",
    "containers",
    "queues",
    "sandboxes",
    "shell_tools",
    "browser_tools",
    "image_tools",
    "http_tools",
    "search_tools",
    "document_tools",
    "client_tools",
    "policies",
    "approvals",
    "skills",
    "sub_agents",
  ] as const)
    listUpTo(`spec.${field}`, 64, full.spec[field][0]);
  listUpTo("spec.permissions.read_only_tools", 64, "a");
  listUpTo("spec.permissions.edit_tools", 64, "a");
  listUpTo("spec.content_screening.model_tools", 64, "a");
});

test("governance fields keep their limits", () => {
  takes("spec.policies.0.required_scopes", [["s"]]);
  refuses("spec.policies.0.required_scopes", "too_short", [[]]);
  listUpTo("spec.policies.0.tools", 64, "t", 1);
  takes("spec.approvals.0.ttl_seconds", [null, 0.5, 3600]);
  refuses("spec.approvals.0.ttl_seconds", "out_of_range", [0, 3600.5]);
  takes("spec.command_screening.approval_ttl_seconds", [0.5, 3600]);
  refuses("spec.command_screening.approval_ttl_seconds", "out_of_range", [0, 3600.5]);
  textUpTo("spec.command_screening.rules.0.pattern", 256);
  listUpTo("spec.hooks", 16, full.spec.hooks[0]);
  between("spec.hooks.0.timeout_ms", 1, 10_000);
  between("spec.governance.retention_days", 1, 3650);
  between("spec.guardrails.judges.0.threshold", 0, 1, 0.01);
  refuses("spec.guardrails.providers.0", "enum", ["toxicity"]);
  between("spec.decider.min_confidence", 0, 1, 0.01);
  atLeast("spec.anomaly.min_volume", 1);
  between("spec.anomaly.min_rate", 0, 1, 0.01);
  atLeast("spec.anomaly.baseline_factor", 1, 0.01);
});

test("patterns and execution keep their limits", () => {
  between("spec.reflect.threshold", 0, 1, 0.01);
  between("spec.reflect.max_iterations", 1, 5);
  between("spec.plan_execute.max_subtasks", 1, 20);
  between("spec.plan_execute.max_replans", 0, 5);
  between("spec.plan_execute.executor_recursion_limit", 1, 20);
  between("spec.execution.resume_token_ttl_seconds", 1, 86_400);
  atLeast("spec.artifacts.threshold_chars", 1);
  atLeast("spec.artifacts.preview_chars", 0);
  atLeast("spec.artifacts.default_window_chars", 1);
  atLeast("spec.artifacts.max_window_chars", 1);
});
