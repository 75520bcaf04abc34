// All mistakes of a manifest at once, from every stage, without those that only follow from another one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { wholeRefusal } from "../../../actors/library/whole-refusal.ts";
import { SvcError } from "../../../bus/errors.ts";
import { compile } from "../../../manifests/compile/compile.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { parseNamed } from "../../../manifests/parse/parse-named.ts";
import type { Problem } from "../../../manifests/problems.ts";
import { agent, plainSource, registries, type Steps, without, withValue } from "../../manifests/support.ts";

const objects = { get: async () => null, list: async () => [] };
const known = registries({ patterns: new Set(["react", "router"]) });
const surroundings = {
  tenantId: "default",
  registries: known,
  objects,
  find: async (name: string) => {
    if (name !== "helper") throw new SvcError("unknown_manifest", { subject: name });
    return { manifest: parseManifest({ metadata: { name } }) };
  },
};

/** Every problem of a manifest, as PUT and validate-manifest report it. */
async function allProblems(source: unknown, parse = parseManifest): Promise<readonly Problem[]> {
  try {
    compile(parse(source), known, plainSource);
    return [];
  } catch (error) {
    const whole = await wholeRefusal(error, surroundings);
    assert.ok(whole instanceof SvcError && whole.code === "invalid_manifest", String(whole));
    return whole.details.detail as readonly Problem[];
  }
}

async function lines(spec: object): Promise<string[]> {
  return (await allProblems(agent(spec))).map(({ type, loc }) => `${type} ${loc.join(".")}`);
}

test("problems of shape, rules and names are reported in field order", async () => {
  const problems = await lines({
    pattern: "router",
    sub_agents: ["helper", "nobody", "no one"],
    limits: { max_tool_calls: 501 },
    session: { compact_after_turn: true },
    model: { id: "huge", temperature: "hot" },
    memory: { checkpointer: "tape" },
    decider: { id: "oracle" },
    procedural_memory: { embedding_model: "bge-small-en-v1.5" },
    colour: "red",
  });

  assert.deepEqual(problems, [
    "extra_forbidden spec.colour",
    "unresolved spec.sub_agents.1",
    "unresolved spec.sub_agents.2",
    "type_error spec.model.temperature",
    "unresolved spec.model.id",
    "unresolved spec.memory.checkpointer",
    "unresolved spec.procedural_memory.embedding_model",
    "conflict spec.session.compact_after_turn",
    "unresolved spec.decider.id",
    "out_of_range spec.limits.max_tool_calls",
  ]);
});

test("an entry keeps its number, in path and sentence, when one before it is left out", async () => {
  const approvals = [{ id: "a", tools: [] }, { tools: [] }, { id: "b", tools: [5] }, { id: "a", tools: [] }, "c"];

  const problems = await allProblems(agent({ tools: ["calculator", 5, "teleport"], approvals }));

  assert.deepEqual(
    problems.map(({ loc, msg }) => [loc.join("."), msg.split(" ")[0]]),
    [
      ["spec.tools.1", "spec.tools[1]"],
      ["spec.tools.2", "spec.tools[2]"],
      ["spec.approvals.1.id", "spec.approvals[1].id"],
      ["spec.approvals.2.tools.0", "spec.approvals[2].tools[0]"],
      ["spec.approvals.4", "spec.approvals[4]"],
      ["spec.approvals.3.id", "spec.approvals[3].id"],
    ],
  );
});

test("a name in a refused entry is not reported as missing elsewhere", async () => {
  const approvals = [{ id: "a", tools: ["*"], when_args: ["path"] }];

  assert.deepEqual(await lines({ tools: ["calculator"], approvals }), ["unresolved spec.approvals.0.when_args.0"]);
  assert.deepEqual(await lines({ tools: ["calculator", { name: "read_file" }], approvals }), [
    "type_error spec.tools.1",
  ]);
  assert.deepEqual(await lines({ tools: "calculator", approvals }), ["type_error spec.tools"]);
});

test("a misspelt field is not reported as missing", async () => {
  assert.deepEqual(await lines({ pattern: "router", sub_agent: ["helper"] }), ["extra_forbidden spec.sub_agent"]);
  assert.deepEqual(await lines({ pattern: "router", colour: ["helper"] }), [
    "extra_forbidden spec.colour",
    "missing spec.sub_agents",
  ]);
});

test("an object that is empty only because of refused parts is not reported as empty", async () => {
  assert.deepEqual(await lines({ tool_effects: { calculator: {} } }), ["missing spec.tool_effects.calculator"]);
  assert.deepEqual(await lines({ tool_effects: { calculator: { cost: 1 } } }), [
    "extra_forbidden spec.tool_effects.calculator.cost",
  ]);
});

test("an object without a required field is left out whole, and nothing else", async () => {
  const problems = await lines({
    delegation: { agents: [{ description: "no name" }], worktree: true },
    tools: ["teleport"],
    output_styles: { default: "terse", styles: 5 },
  });

  assert.deepEqual(problems, [
    "missing spec.delegation.agents.0.name",
    "type_error spec.output_styles.styles",
    "unresolved spec.tools.0",
  ]);
});

test("a refused rate is not reported as missing, and requires no other rate", async () => {
  const price = (given: object) => lines({ model: { id: "free", price: given } });

  assert.deepEqual(await price({ output: 1 }), ["missing spec.model.price.input"]);
  assert.deepEqual(await price({ input: "x", output: 1 }), ["type_error spec.model.price.input"]);
  assert.deepEqual(await price({ input: "x" }), ["type_error spec.model.price.input"]);
});

test("one entry of a list hides no mistake of another", async () => {
  const prompts = [
    { name: "a", body: 5 },
    { name: "c", file: "gone.md" },
  ];
  const judge = (name: string, decider: unknown) => ({ name, criteria: "c", decider });
  const sub_agents = [5, "nobody", "helper", "no one"];

  assert.deepEqual(await lines({ prompts }), ["type_error spec.prompts.0.body", "unresolved spec.prompts.1.file"]);
  assert.deepEqual(await lines({ guardrails: { judges: [judge("a", 5), judge("b", true), judge("b", false)] } }), [
    "type_error spec.guardrails.judges.0.decider",
    "conflict spec.guardrails.judges.1.decider",
    "conflict spec.guardrails.judges.2.name",
  ]);
  assert.deepEqual(
    (await allProblems(agent({ pattern: "router", sub_agents }))).map(({ msg }) =>
      msg.split(" ").slice(0, 2).join(" "),
    ),
    ["spec.sub_agents[0] must", "spec.sub_agents[1]: nobody", "spec.sub_agents[3]: no"],
  );
});

test("a wrong or missing name hides no mistake of spec, and each sentence has the file", async () => {
  const spec = { tools: ["teleport"], model: { temperature: 9 } };
  const named = (source: unknown) => parseNamed(source, "x", "x.yaml");
  const told = async (source: unknown) => (await allProblems(source, named)).map(({ msg }) => msg);

  const ofSpec = [/^x\.yaml: spec\.model\.temperature must/, /^x\.yaml: spec\.tools\[0\] names the tool teleport/];
  for (const [metadata, first] of [
    [{ name: "y" }, /^x\.yaml: metadata\.name must be x, as x\.yaml is named\.$/],
    [{ name: "y z" }, /^x\.yaml: metadata\.name may hold letters/],
    [{}, /^x\.yaml: metadata\.name is required/],
    [undefined, /^x\.yaml: metadata is required/],
  ] as const) {
    const messages = await told(JSON.parse(JSON.stringify({ metadata, spec })));
    assert.equal(messages.length, 3, messages.join("\n"));
    for (const [at, pattern] of [first, ...ofSpec].entries()) assert.match(messages[at] ?? "", pattern);
  }
});

test("unreadable text, a non-object root or twenty problems are reported alone", async () => {
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`unknown_${at}`, 1]));

  assert.deepEqual((await allProblems("metadata: [")).map(({ type }) => type).slice(0, 1), ["syntax"]);
  for (const root of ["[]", "5", "- a: 1"])
    assert.deepEqual(
      (await allProblems(root)).map(({ type }) => type),
      ["type_error"],
    );
  const before = { sub_agents: ["helper"], model: { id: "huge" } };
  const shapes = await lines({ tools: Object.keys(many).map((_, at) => at), ...before });
  assert.deepEqual([shapes.length, shapes[0]], [20, "type_error spec.tools.0"]);
  const rules = await lines({ approvals: Array(20).fill({ id: "a", tools: [] }), ...before });
  assert.deepEqual(
    [rules.length, rules[0], rules[1]],
    [20, "conflict spec.sub_agents", "conflict spec.approvals.1.id"],
  );
});

test("nineteen problems of one stage leave room for one of the next", async () => {
  const tools = Array.from({ length: 19 }, (_, at) => at);

  const problems = await lines({ tools: [...tools, "teleport", "nowhere"] });

  assert.deepEqual([problems.length, problems.at(-1)], [20, "unresolved spec.tools.19"]);
});

/** A manifest without mistakes, whose fields depend on each other as much as possible. */
const sound = {
  metadata: { name: "x", tags: ["a"], starters: [{ title: "t", prompt: "p" }] },
  spec: {
    pattern: "react",
    delegation: { agents: [{ name: "helper", description: "helps" }], background: true },
    model: {
      id: "small",
      fallbacks: ["large"],
      price: { input: 1 },
      confidence_escalation: { enabled: true, escalate_to: "large", decider: true },
    },
    decider: { id: "sure", min_confidence: 0.6 },
    system_prompt: { inline: "Be brief.", include_tool_guidance: true },
    prompts: [{ name: "sum", body: "Sum up $1.", argument_hint: "what" }],
    output_styles: { default: "terse", styles: [{ name: "terse", prompt: "Be terse." }] },
    tools: ["calculator", "read_file", "write_file", "todo_write"],
    tool_guidance: { read_file: "Read first." },
    tool_effects: { write_file: "once" },
    client_tools: [{ name: "show", description: "Shows.", args_schema: { type: "object", properties: { a: {} } } }],
    workspace: { scope: "thread" },
    session: { strategy: "compacting", compact_after_turn: true },
    policies: [{ id: "files", required_scopes: ["files:use"], tools: ["*_file"] }],
    approvals: [
      { id: "shows", tools: ["show"], when_args: ["a"] },
      { id: "tasks", tools: ["task"] },
    ],
    auth: { outbound: { providers: ["openai", "anthropic", "workers_ai"] } },
    limits: { max_cost_usd: 1, max_tool_calls: 20 },
    execution: { tools: "parallel" },
  },
};

function* placesIn(value: unknown, path: Steps = []): Generator<Steps> {
  if (path.length > 0) yield path;
  if (typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value))
    yield* placesIn((value as Record<string, unknown>)[key], [...path, Array.isArray(value) ? Number(key) : key]);
}

test("one mistake anywhere in a valid manifest is one problem there, and no other", async () => {
  const told = await allProblems(sound);
  assert.deepEqual(told, []);
  let broken = 0;
  for (const path of placesIn(sound)) {
    for (const source of [
      withValue(sound, path, [[{ no: "such" }]]),
      withValue(sound, path, -0.5),
      without(sound, path),
    ]) {
      const shapes = await problemsOfShape(source);
      if (shapes.length === 0) continue;
      broken++;
      const problems = await allProblems(source);
      assert.deepEqual(
        problems.map(({ loc, msg }) => [loc.join("."), msg]),
        shapes.map(({ loc, msg }) => [loc.join("."), msg]),
        path.join("."),
      );
    }
  }
  assert.ok(broken > 100, `${broken}`);
});

/** The problems that the schema alone finds. */
async function problemsOfShape(source: unknown): Promise<readonly Problem[]> {
  const { fieldProblems } = await import("../../../manifests/parse/check-fields.ts");
  const { manifestSchema } = await import("../../../manifests/schema/manifest.ts");
  const { inSectionOrder } = await import("../../../manifests/schema/section-order.ts");
  return inSectionOrder(fieldProblems(manifestSchema, structuredClone(source)));
}
