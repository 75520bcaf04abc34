import assert from "node:assert/strict";
import { test } from "node:test";
import { digestJson } from "../../../manifests/canonical-json.ts";
import { compile } from "../../../manifests/compile/compile.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { agent, compileProblems, compileSpec, plainSource, rates, registries } from "../support.ts";

test("a minimal manifest compiles to the defaults", () => {
  const manifest = parseManifest(agent());

  const compiled = compile(manifest, registries(), { ...plainSource, version: 7 });

  assert.equal(compiled.name, "x");
  assert.equal(compiled.version, 7);
  assert.equal(compiled.manifest, manifest);
  assert.equal(compiled.digest, digestJson(manifest));
  assert.equal(compiled.systemPrompt, "");
  assert.deepEqual([...compiled.prompts], []);
  assert.deepEqual(compiled.tools, []);
  assert.equal(compiled.model.route.id, "small");
  assert.deepEqual(compiled.model.fallbacks, []);
  assert.equal(compiled.model.temperature, 0);
  assert.equal(compiled.model.max_tokens, null);
  assert.deepEqual(compiled.model.price, rates);
  assert.deepEqual(compiled.session, { kind: "full_replay" });
  assert.equal(compiled.recursion_limit, 10);
  assert.equal(compiled.parallelTools, false);
  assert.equal(compiled.workspaceScope, "thread");
  assert.deepEqual(compiled.inbound, { schemes: [], required_scopes: [], allow_anonymous: false });
  assert.deepEqual(compiled.outboundProviders, []);
  assert.deepEqual(compiled.metrics, []);
  assert.deepEqual(compiled.policies, []);
  assert.deepEqual(compiled.emptyRules, []);
});

test("the digest covers the manifest with its defaults, and nothing else", () => {
  const digest = (spec: object) => compileSpec(spec).digest;

  assert.equal(digest({}), digest({ tools: [], model: { temperature: 0 } }));
  assert.equal(digest({}), compileSpec({}, { defaultModelId: "large" }).digest);
  assert.notEqual(digest({}), digest({ recursion_limit: 11 }));
});

test("tools are bound in order, each once; a missing one is unresolved at its path", () => {
  const { tools } = compileSpec({ tools: ["write_file", "calculator", "write_file"] });

  assert.deepEqual(
    tools.map((tool) => tool.name),
    ["write_file", "calculator"],
  );
  assert.deepEqual(compileProblems({ tools: ["calculator", "teleport", "*"] }), [
    "unresolved spec.tools.1",
    "unresolved spec.tools.2",
  ]);
});

test("a model or fallback without a route is unresolved at its path", () => {
  assert.deepEqual(compileProblems({ model: { id: "huge" } }), ["unresolved spec.model.id"]);
  assert.deepEqual(compileProblems({}, { defaultModelId: "gone" }), ["unresolved spec.model.id"]);
  assert.deepEqual(compileProblems({ model: { fallbacks: ["large", "huge"] } }), ["unresolved spec.model.fallbacks.1"]);
  assert.deepEqual(
    compileSpec({ model: { fallbacks: ["large", "free"] } }).model.fallbacks.map((fallback) => fallback.id),
    ["large", "free"],
  );
});

test("a deployment workspace is for the tenants that the operator lists", () => {
  const spec = { workspace: { scope: "deployment" } };

  assert.equal(compileSpec(spec).workspaceScope, "deployment");
  assert.deepEqual(compileProblems(spec, {}, { tenantId: "acme" }), ["conflict spec.workspace.scope"]);
  assert.equal(compileSpec({ workspace: { scope: "tenant" } }, {}, { tenantId: "acme" }).workspaceScope, "tenant");
});

test("policies name the bound tools that they guard, and idle globs are reported", () => {
  const { policies, emptyRules } = compileSpec({
    tools: ["read_file", "write_file", "calculator"],
    policies: [
      { id: "files", required_scopes: ["files:use"], tools: ["*_file", "glob"] },
      { id: "typo", required_scopes: ["x"], tools: ["Calculator"] },
    ],
  });

  assert.deepEqual(policies, [
    { id: "files", required_scopes: ["files:use"], tools: new Set(["read_file", "write_file"]) },
    { id: "typo", required_scopes: ["x"], tools: new Set() },
  ]);
  assert.deepEqual(emptyRules, [
    { rule: "files: glob", kind: "policy" },
    { rule: "typo: Calculator", kind: "policy" },
  ]);
});

test("prices of the manifest replace the route's; a route without rates needs both", () => {
  const price = (model: object) => compileSpec({ model }).model.price;

  assert.deepEqual(price({ price: { input: 1 } }), { ...rates, input: 1 });
  assert.deepEqual(price({ id: "free" }), null);
  assert.deepEqual(price({ id: "free", price: { input: 1, output: 2, cache_read: 0 } }), {
    input: 1,
    output: 2,
    cache_read: 0,
    cache_write: 1,
  });
  assert.deepEqual(compileProblems({ model: { id: "free", price: { input: 1 } } }), [
    "missing spec.model.price.output",
  ]);
});

test("problems of every kind are reported together, in the order of the fields", () => {
  const problems = compileProblems(
    {
      tools: ["teleport"],
      model: { id: "huge" },
      procedural_memory: { embedding_model: "another" },
      workspace: { scope: "deployment" },
      system_prompt: { files: ["gone.md"] },
      prompts: [{ name: "p", file: "gone.md" }],
    },
    { workspaceDeploymentTenants: [] },
  );

  assert.deepEqual(problems, [
    "unresolved spec.model.id",
    "unresolved spec.system_prompt.files.0",
    "unresolved spec.prompts.0.file",
    "unresolved spec.tools.0",
    "conflict spec.workspace.scope",
    "unresolved spec.procedural_memory.embedding_model",
  ]);
});

test("sequential or parallel tools, inbound rules, providers and metrics are passed on", () => {
  const compiled = compileSpec({
    execution: { tools: "parallel" },
    recursion_limit: 50,
    auth: {
      inbound: { schemes: ["jwt"], required_scopes: ["chat:write"], allow_anonymous: true },
      outbound: { providers: ["openai"] },
    },
    observability: { metrics: ["svc_tool_calls_total"] },
    model: { temperature: 0.7, max_tokens: 99 },
  });

  assert.equal(compiled.parallelTools, true);
  assert.equal(compiled.recursion_limit, 50);
  assert.deepEqual(compiled.inbound, { schemes: ["jwt"], required_scopes: ["chat:write"], allow_anonymous: true });
  assert.deepEqual(compiled.outboundProviders, ["openai"]);
  assert.deepEqual(compiled.metrics, ["svc_tool_calls_total"]);
  assert.equal(compiled.model.temperature, 0.7);
  assert.equal(compiled.model.max_tokens, 99);
});
