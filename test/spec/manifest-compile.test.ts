import assert from "node:assert/strict";
import { test } from "node:test";
import type { CompileSource } from "../../manifests/compile/compile.ts";
import type { ModelPrice, ModelRoute } from "../../manifests/registries.ts";
import { compileProblems, compileSpec, rates, registries } from "../manifests/support.ts";

function promptOf(system_prompt: object, rest: object = {}, texts: Record<string, string> = {}): string {
  const source: Partial<CompileSource> = { tenantId: "acme", texts: new Map(Object.entries(texts)) };
  return compileSpec({ system_prompt, ...rest }, {}, source).systemPrompt;
}

test("SPEC-011 model.id names a route, and null is the default route", () => {
  assert.equal(compileSpec({}).model.route.id, "small");
  assert.equal(compileSpec({ model: { id: null } }, { defaultModelId: "large" }).model.route.id, "large");
  assert.equal(compileSpec({ model: { id: "large" } }).model.route.model, "large-wire");
});

test("SPEC-017 model.vision_model is a permitted route for images, and null is the operator's", () => {
  const { routes } = registries();
  const eyes = (id: string, provider: string, price: ModelPrice | null = rates): [string, ModelRoute] => [
    id,
    { ...(routes.get("small") as ModelRoute), id, provider, modalities: ["text", "image"], price },
  ];
  const given = { routes: new Map([...routes, eyes("eyes", "openai"), eyes("dear", "groq", null)]) };
  const problems = (vision_model: string, rest: object = {}) =>
    compileProblems({ model: { vision_model }, ...rest }, given);
  const vision = (spec: object, defaultVisionModelId: string) =>
    compileSpec(spec, { ...given, defaultVisionModelId }).model.vision?.id;
  const onlyOpenAi = { auth: { outbound: { providers: ["openai"] } } };
  const capped = { limits: { max_cost_usd: 1 } };

  assert.equal(vision({ model: { vision_model: "eyes" } }, "dear"), "eyes");
  assert.deepEqual(problems("gone"), ["unresolved spec.model.vision_model"]);
  assert.deepEqual(problems("large"), ["conflict spec.model.vision_model"]);
  assert.deepEqual(problems("dear", onlyOpenAi), ["conflict spec.model.vision_model"]);
  assert.deepEqual(problems("dear", capped), ["conflict spec.limits.max_cost_usd"]);
  assert.equal(vision({}, "dear"), "dear");
  assert.equal(vision({}, ""), undefined);
  assert.equal(vision(onlyOpenAi, "dear"), undefined);
  assert.equal(vision(capped, "dear"), undefined);
  assert.equal(vision({ ...onlyOpenAi, ...capped }, "eyes"), "eyes");
});

test("SPEC-020 model.price has priority over the rates of the route", () => {
  assert.deepEqual(compileSpec({}).model.price, rates);
  assert.deepEqual(compileSpec({ model: { price: { input: 1.5, output: 2.5 } } }).model.price, {
    ...rates,
    input: 1.5,
    output: 2.5,
  });
});

test("SPEC-024 a declared max_cost_usd needs rates of the route or model.price", () => {
  const limits = { max_cost_usd: 1 };
  const refused = ["conflict spec.limits.max_cost_usd"];
  const price = { input: 1, output: 2 };

  assert.deepEqual(compileProblems({ limits }), []);
  assert.deepEqual(compileProblems({ limits, model: { id: "free" } }), refused);
  assert.deepEqual(compileProblems({ limits, model: { id: "free", price } }), []);
  assert.deepEqual(
    compileProblems({ model: { id: "free" } }),
    [],
    "the cap that is not declared stands and reads zero",
  );
  assert.equal(compileSpec({ model: { id: "free" } }).limits.max_cost_usd, 1000);
  // A fallback is metered at its own rates, so the manifest's price does not cover it.
  assert.deepEqual(compileProblems({ limits, model: { fallbacks: ["free"] } }), refused);
  assert.deepEqual(compileProblems({ limits, model: { fallbacks: ["free"], price } }), refused);
});

test("SPEC-025 inline and base are the system prompt", () => {
  assert.equal(promptOf({ inline: "Be kind." }), "Be kind.");
  assert.equal(promptOf({ base: "You are an agent." }), "You are an agent.");
  assert.equal(promptOf({ inline: "Be kind.", base: "You are an agent." }), "You are an agent.\n\n---\n\nBe kind.");
});

test("SPEC-026 soul puts the tenant's soul prompt first", () => {
  const souls = { "souls/acme.md": "I am acme.", "souls/other.md": "I am other." };

  assert.equal(promptOf({ soul: true, base: "B" }, {}, souls), "I am acme.\n\n---\n\nB");
  assert.equal(promptOf({ soul: false, base: "B" }, {}, souls), "B");
  assert.equal(promptOf({ soul: true, base: "B" }), "B", "a tenant without a soul");
});

test("SPEC-027 files are appended after base and inline, the tenant's before the shared ones", () => {
  const texts = {
    "prompts/acme/a.md": "acme's a",
    "prompts/_shared/a.md": "shared a",
    "prompts/_shared/sub/b.md": "shared b",
    "prompts/other/c.md": "other's c",
  };

  assert.equal(
    promptOf({ inline: "I", base: "B", files: ["sub/b.md", "a.md"] }, {}, texts),
    "B\n\n---\n\nI\n\n---\n\nshared b\n\n---\n\nacme's a",
  );
  const missing = compileProblems(
    { system_prompt: { files: ["a.md", "c.md"] } },
    {},
    { tenantId: "acme", texts: new Map(Object.entries(texts)) },
  );
  assert.deepEqual(missing, ["unresolved spec.system_prompt.files.1"]);
  const long = new Map([["prompts/default/a.md", "x".repeat(200_001)]]);
  assert.deepEqual(compileProblems({ system_prompt: { files: ["a.md"] } }, {}, { texts: long }), [
    "too_long spec.system_prompt.files.0",
  ]);
});

test("SPEC-028 system_md replaces soul, base, inline and files; append_system_md appends", () => {
  const parts = { soul: true, base: "B", inline: "I", files: ["gone.md"] };

  assert.equal(promptOf({ ...parts, system_md: "All of it." }), "All of it.");
  assert.equal(
    promptOf({ ...parts, system_md: "All of it.", append_system_md: "And this." }),
    "All of it.\n\n---\n\nAnd this.",
  );
  assert.equal(promptOf({ base: "B", append_system_md: "And this." }), "B\n\n---\n\nAnd this.");
  assert.equal(promptOf({ base: "B", system_md: "" }), "", "an empty replacement replaces too");
});

test("SPEC-029 include_tool_guidance false omits the tool guidance", () => {
  const rest = { tools: ["calculator"], tool_guidance: { calculator: "For sums." } };

  assert.equal(promptOf({ inline: "I" }, rest), "I\n\n---\n\n## Tool guidance\n\n- calculator: For sums.");
  assert.equal(promptOf({ inline: "I", include_tool_guidance: false }, rest), "I");
});

test("SPEC-030 soul, base, inline and files are joined in this order, without empty ones", () => {
  const texts = { "souls/acme.md": "S", "prompts/acme/a.md": "A", "prompts/acme/b.md": "" };
  const rule = "\n\n---\n\n";

  assert.equal(
    promptOf({ files: ["a.md", "b.md"], inline: "I", base: "B", soul: true, append_system_md: "E" }, {}, texts),
    ["S", "B", "I", "A", "E"].join(rule),
  );
  assert.equal(promptOf({ base: " \n", inline: "I", append_system_md: "" }), "I");
  assert.equal(promptOf({}), "");
});

test("SPEC-041 tool_guidance lines appear for bound tools, by name or glob, without repeats", () => {
  const guidance = (tools: string[], tool_guidance: Record<string, string>) => promptOf({}, { tools, tool_guidance });
  const heading = "## Tool guidance\n\n";

  assert.equal(
    guidance(["write_file", "calculator", "read_file"], {
      calculator: "For sums.",
      "*_file": "Mind the path.",
      read_file: "Read before you write.",
    }),
    `${heading}- write_file, read_file: Mind the path.\n- calculator: For sums.\n- read_file: Read before you write.`,
  );
  assert.equal(
    guidance(["read_file", "write_file"], { read_file: "Same.", write_file: "Same.", "*": "Same." }),
    `${heading}- read_file, write_file: Same.`,
  );
  assert.equal(guidance(["calculator"], { read_file: "Never bound." }), "");
  assert.equal(guidance([], { "*": "No tools." }), "");
});

test("a tool_guidance key that matches no bound tool is reported", () => {
  const { emptyRules } = compileSpec({
    tools: ["calculator"],
    tool_guidance: { calculator: "a", calculater: "b", "read_*": "c", "calc*": "d" },
  });

  assert.deepEqual(emptyRules, [
    { rule: "calculater", kind: "tool_guidance" },
    { rule: "read_*", kind: "tool_guidance" },
  ]);
});

test("SPEC-058 a model gets at most tools_max tools, and vectors come from an embedding route", () => {
  const tools = ["calculator", "read_file", "write_file", "list_dir", "todo_write"];
  const large = { id: "large" };
  const { routes: known } = registries();
  const narrow = { ...(known.get("large") as ModelRoute), tools_max: 4 };
  const given = { routes: new Map([...known, ["large", narrow] as const]) };

  assert.deepEqual(compileProblems({ tools, model: large }, given), ["conflict spec.model.id"]);
  assert.deepEqual(compileProblems({ tools, model: { fallbacks: ["large"] } }, given), [
    "conflict spec.model.fallbacks.0",
  ]);
  assert.deepEqual(compileProblems({ tools: tools.slice(1), model: large }, given), []);
  assert.deepEqual(compileProblems({ tools, model: large, tools_retrieval: { enabled: true } }, given), []);
  assert.deepEqual(compileProblems({ tools_retrieval: { model: "vectors" } }), []);
  assert.deepEqual(compileProblems({ tools_retrieval: { model: "elsewhere" } }), [
    "unresolved spec.tools_retrieval.model",
  ]);
});
