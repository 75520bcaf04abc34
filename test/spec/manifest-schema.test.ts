import assert from "node:assert/strict";
import { test } from "node:test";
import { parseManifest } from "../../manifests/parse/parse.ts";
import { manifestSchema } from "../../manifests/schema/manifest.ts";
import {
  agent,
  compileProblems,
  compileSpec,
  fullManifest,
  isMap,
  nodeOf,
  nodesOf,
  parseProblems,
  types,
  withValue,
} from "../manifests/support.ts";

test("SPEC-001 unknown keys are refused at every level of a manifest", () => {
  const full = fullManifest(manifestSchema);
  const closed = [...nodesOf(nodeOf(manifestSchema))].filter(
    ({ node }) => types(node).includes("object") && !isMap(node),
  );

  for (const { path } of closed) {
    const at = [...path, "no_such_key"];
    // The full manifest also breaks rules between fields, which add other problems.
    const unknown = parseProblems(withValue(full, at, 1)).filter((problem) => problem.startsWith("extra_forbidden"));
    assert.deepEqual(unknown, [`extra_forbidden ${at.join(".")}`]);
  }

  assert.ok(closed.length > 60, `only ${closed.length} levels`);
});

test("SPEC-002 apiVersion is svc/v1 and kind is Agent, and nothing else", () => {
  const { apiVersion, kind } = parseManifest(agent());

  assert.deepEqual([apiVersion, kind], ["svc/v1", "Agent"]);
  assert.deepEqual(parseProblems({ ...agent(), apiVersion: "svc/v1", kind: "Agent" }), []);
  assert.deepEqual(parseProblems({ ...agent(), apiVersion: "svc/v2" }), ["enum apiVersion"]);
  assert.deepEqual(parseProblems({ ...agent(), kind: "Bot" }), ["enum kind"]);
  assert.deepEqual(parseProblems({ ...agent(), kind: "agent" }), ["enum kind"]);
});

test("SPEC-003 metadata is required, and a manifest without spec is a minimal react agent", () => {
  const compiled = compileSpec({});

  assert.deepEqual(parseProblems({ spec: {} }), ["missing metadata"]);
  assert.deepEqual(parseProblems({ metadata: {} }), ["missing metadata.name"]);
  assert.deepEqual(parseManifest({ metadata: { name: "x" } }), parseManifest(agent()));
  assert.equal(compiled.manifest.spec.pattern, "react");
  assert.deepEqual(compiled.tools, []);
});

test("SPEC-006 metadata.version is free text, by default 1.0.0", () => {
  assert.equal(parseManifest(agent()).metadata.version, "1.0.0");
  assert.equal(parseManifest(agent({}, { version: "spring, second try" })).metadata.version, "spring, second try");
});

test("SPEC-008 metadata.tags is a list of texts, by default empty", () => {
  assert.deepEqual(parseManifest(agent()).metadata.tags, []);
  assert.deepEqual(parseManifest(agent({}, { tags: ["a", "b", "a"] })).metadata.tags, ["a", "b", "a"]);
});

test("PAT-001 the seven built-in patterns parse, react by default; unknown ones do not", () => {
  const single = ["react", "deep", "reflect", "plan_execute"];
  const multi = ["router", "parallel", "groupchat"];

  assert.equal(parseManifest(agent()).spec.pattern, "react");
  for (const pattern of single) assert.equal(parseManifest(agent({ pattern })).spec.pattern, pattern);
  for (const pattern of multi) assert.equal(parseManifest(agent({ pattern, sub_agents: ["y"] })).spec.pattern, pattern);
  assert.deepEqual(compileProblems({ pattern: "foo" }), ["enum spec.pattern"]);
  for (const pattern of single) assert.deepEqual(compileProblems({ pattern }), []);
});

test("PAT-013 aggregator_prompt is text, by default empty", () => {
  const spec = { pattern: "parallel", sub_agents: ["y"], aggregator_prompt: "Merge them." };

  assert.equal(parseManifest(agent()).spec.aggregator_prompt, "");
  assert.equal(parseManifest(agent(spec)).spec.aggregator_prompt, "Merge them.");
});

test("every default is the specified one", () => {
  assert.deepEqual(parseManifest({ metadata: { name: "x" } }), {
    apiVersion: "svc/v1",
    kind: "Agent",
    metadata: { name: "x", version: "1.0.0", description: "", tags: [], starters: [], greeting: null },
    spec: {
      pattern: "react",
      sub_agents: [],
      aggregator_prompt: "",
      delegation: null,
      max_turns: 4,
      recursion_limit: 10,
      model: {
        id: null,
        temperature: 0,
        max_tokens: null,
        cache: false,
        thinking_budget: null,
        thinking_level: null,
        fallbacks: [],
        vision_model: null,
        confidence_escalation: {
          enabled: false,
          escalate_to: "",
          low_confidence_markers: [
            "i'm not sure",
            "i am not certain",
            "i don't know",
            "it's unclear",
            "cannot determine",
          ],
          min_response_chars: 40,
          decider: false,
        },
        price: {},
      },
      system_prompt: {
        inline: "",
        soul: false,
        base: "",
        files: [],
        system_md: null,
        append_system_md: null,
        include_tool_guidance: true,
      },
      prompts: [],
      output_styles: { default: null, styles: [] },
      output_schema: null,
      tools: [],
      workspace: { scope: "thread" },
      tool_guidance: {},
      tool_effects: {},
      tools_retrieval: { enabled: false, top_k: 20, model: "bge-base-en-v1.5", decider: false },
      client_tools: [],
      artifacts: {
        enabled: false,
        threshold_chars: 8000,
        preview_chars: 200,
        default_window_chars: 4000,
        max_window_chars: 16000,
      },
      skills: [],
      skills_declared_only: false,
      personal_skills: "off",
      skill_authoring: { enabled: false, mode: "draft", max_pending: 20, auto_eval: false },
      skill_suggestion: { enabled: false, shortlist: 3, min_gate: 0.3, min_fit: 0.3 },
      mcp_servers: [],
      peers: [],
      containers: [],
      queues: [],
      sandboxes: [],
      shell_tools: [],
      http_tools: [],
      search_tools: [],
      document_tools: [],
      image_tools: [],
      browser_tools: [],
      github_publish: null,
      network: { allow_hosts: null, credentials: [] },
      memory: {
        checkpointer: "postgres",
        store: "pgvector",
        scope: "manifest",
        capture: { enabled: false, model: "claude-haiku", max_facts: 5, min_chars: 80, verify: false },
        recall: { tools: false, limit: 5 },
        consolidate: { enabled: false, model: "claude-haiku", after_facts: 50, max_facts: 200 },
      },
      procedural_memory: { enabled: false, top_k: 3, embedding_model: "bge-base-en-v1.5" },
      session: {
        strategy: "full_replay",
        compaction_enabled: true,
        reserve_tokens: 16384,
        keep_recent_tokens: 20000,
        context_window_tokens: null,
        steering_mode: "all",
        follow_up_mode: "all",
        branch_summary: true,
        compact_after_turn: false,
        clear_tool_results: null,
      },
      decider: { id: "", min_confidence: 0.5 },
      reflect: { verifier_model: null, threshold: 0.7, max_iterations: 2, criteria: "", decider: false },
      plan_execute: {
        planner_model: null,
        executor_model: null,
        max_subtasks: 8,
        replan_on_failure: true,
        max_replans: 2,
        executor_recursion_limit: 6,
      },
      auth: {
        inbound: { schemes: [], required_scopes: [], allow_anonymous: false },
        outbound: { providers: [] },
      },
      policies: [],
      approvals: [],
      permissions: {
        default_mode: "default",
        allowed_modes: ["default", "plan", "accept_edits"],
        read_only_tools: [],
        edit_tools: [],
      },
      command_screening: {
        enabled: false,
        include_defaults: true,
        rules: [],
        target_tools: [],
        approval_ttl_seconds: 300,
      },
      content_screening: {
        enabled: false,
        model: "",
        tools: [],
        on_flag: "quarantine",
        decider: false,
        model_tools: [],
        image_model: "",
      },
      guardrails: { providers: [], block_on_match: false, targets: ["input", "output"], judges: [] },
      hooks: [],
      governance: {
        frameworks: [],
        risk_tier: "limited",
        transparency_notice: false,
        forbid_plaintext_secrets: false,
        pin_compile: false,
        retention_days: null,
      },
      limits: {
        max_tool_calls: null,
        max_wall_clock_seconds: null,
        max_peer_hops: null,
        max_input_tokens: null,
        max_output_tokens: null,
        max_cost_usd: null,
        precount: false,
      },
      execution: { mode: "transient", resume_token_ttl_seconds: null, tools: "sequential", webhooks: [] },
      observability: { trace: true, metrics: [] },
      anomaly: { enabled: true, min_volume: 10, min_rate: 0.2, baseline_factor: 3 },
      a2a: { publish: true, capabilities: [] },
      extensions: {},
    },
  });
});

test("every default of a list entry is the specified one", () => {
  const { spec } = parseManifest(
    agent({
      delegation: { agents: [{ name: "y" }] },
      prompts: [{ name: "p" }],
      output_styles: { styles: [{ name: "s", prompt: "Short." }] },
      client_tools: [{ name: "c" }],
      skills: [{ name: "k" }],
      mcp_servers: [{ name: "m", url: "https://m.example" }],
      peers: [{ name: "p", url: "https://p.example" }],
      containers: [{ name: "c", image: "i" }],
      queues: [{ name: "q", queue_binding: "b" }],
      sandboxes: [{ name: "s", binding: "b" }],
      shell_tools: [{ name: "s", commands: ["git status"] }],
      http_tools: [{ name: "h" }],
      search_tools: [{ name: "s" }],
      document_tools: [{ name: "d" }],
      image_tools: [{ name: "i", op: "info" }],
      browser_tools: [{ name: "b", binding: "b" }],
      github_publish: { auth: "secret:GITHUB" },
      policies: [{ id: "p", required_scopes: ["s"], tools: ["t"] }],
      approvals: [{ id: "a" }],
      command_screening: { rules: [{ pattern: "rm", decision: "deny" }] },
      guardrails: { judges: [{ name: "j", criteria: "Kind." }] },
      hooks: [{ id: "h", event: "stop", endpoint: "e" }],
      a2a: { capabilities: [{ id: "c" }] },
    }),
  );

  assert.deepEqual(spec.delegation, {
    agents: [{ name: "y", description: "" }],
    worktree: false,
    background: false,
    max_background: 3,
  });
  assert.deepEqual(spec.prompts, [{ name: "p", body: "", file: null, description: "", argument_hint: "" }]);
  assert.deepEqual(spec.output_styles.styles, [{ name: "s", description: "", prompt: "Short." }]);
  assert.deepEqual(spec.client_tools, [
    { name: "c", description: "", args_schema: null, timeout_seconds: 120, fatal: false },
  ]);
  assert.deepEqual(spec.skills, [{ name: "k", description: "" }]);
  assert.deepEqual(spec.mcp_servers, [
    {
      name: "m",
      url: "https://m.example",
      command: null,
      args: [],
      cwd: null,
      env: {},
      auth: null,
      transport: "sse",
      tools: [],
      timeout_ms: null,
      use_instructions: false,
      pin: "first_use",
    },
  ]);
  assert.deepEqual(spec.peers, [{ name: "p", url: "https://p.example", auth: null, timeout_ms: null }]);
  assert.deepEqual(spec.containers, [
    {
      name: "c",
      description: "",
      gateway_url: null,
      image: "i",
      container_tool_name: null,
      timeout_ms: null,
      auth: null,
      args_schema: null,
      fatal: false,
    },
  ]);
  assert.deepEqual(spec.queues, [
    { name: "q", queue_binding: "b", description: "", deadline_ms: null, args_schema: null, fatal: false },
  ]);
  assert.deepEqual(spec.sandboxes, [
    {
      name: "s",
      binding: "b",
      description: "",
      sandbox_tool_name: null,
      timeout_ms: null,
      path_prefix: "",
      args_schema: null,
      fatal: false,
    },
  ]);
  assert.deepEqual(spec.shell_tools, [
    {
      name: "s",
      commands: ["git status"],
      description: "",
      timeout_ms: 300_000,
      fatal: false,
      background: false,
    },
  ]);
  assert.deepEqual(spec.http_tools, [
    {
      name: "h",
      description: "",
      path_prefix: "",
      methods: ["GET"],
      timeout_ms: null,
      max_bytes: null,
      format: "text",
      fatal: false,
      allow_any_host: false,
    },
  ]);
  assert.deepEqual(spec.search_tools, [{ name: "s", description: "", max_results: null, fatal: false }]);
  assert.deepEqual(spec.document_tools, [
    { name: "d", description: "", max_results: null, filter: null, fatal: false },
  ]);
  assert.deepEqual(spec.image_tools, [{ name: "i", description: "", op: "info", allow_path: false, fatal: false }]);
  assert.deepEqual(spec.browser_tools, [
    { name: "b", description: "", binding: "b", op: "content", timeout_ms: null, path_prefix: "", fatal: false },
  ]);
  assert.deepEqual(spec.github_publish, {
    ...{ repo: null, auth: "secret:GITHUB", base: "main", branch_prefix: "" },
    allow_workflows: false,
  });
  assert.deepEqual(spec.policies, [{ id: "p", description: "", required_scopes: ["s"], tools: ["t"] }]);
  assert.deepEqual(spec.approvals, [
    {
      id: "a",
      description: "",
      tools: [],
      ttl_seconds: null,
      one_shot: false,
      bind_principal: false,
      require_other: false,
      allow_unattended: false,
      when_args: [],
      wait: true,
      risks: [],
      when_tainted: [],
    },
  ]);
  assert.deepEqual(spec.command_screening.rules, [{ pattern: "rm", decision: "deny", reason: null }]);
  assert.deepEqual(spec.guardrails.judges, [
    {
      name: "j",
      criteria: "Kind.",
      threshold: 0.7,
      model: "",
      target_tools: [],
      final_response: false,
      decider: false,
    },
  ]);
  assert.deepEqual(spec.hooks, [
    {
      id: "h",
      event: "stop",
      endpoint: "e",
      type: "http",
      tools: [],
      timeout_ms: 5000,
      content: "args",
      on_error: "allow",
    },
  ]);
  assert.deepEqual(spec.a2a.capabilities, [{ id: "c", description: "", input_schema_ref: "" }]);
});
