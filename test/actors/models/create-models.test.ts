import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { builtInProviders, workersAiUrl } from "../../../actors/models/built-in-providers.ts";
import { builtInRoutes, unknownFigures } from "../../../actors/models/built-in-routes.ts";
import { createModels, describeDefault } from "../../../actors/models/create-models.ts";
import { ModelFailure } from "../../../actors/models/provider.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { modelProviders } from "../../../governance/settings/model-options.ts";
import { type Environment, loadSettings } from "../../../governance/settings/settings.ts";
import { SettingsError } from "../../../governance/settings/settings-error.ts";
import { costOf } from "../../../governance/usage.ts";
import { compile } from "../../../manifests/compile/compile.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { cleanup, tempDir } from "../../support/temp.ts";
import { listen, requestTo, stillEnv } from "./support.ts";

let mock: MockModel;
before(async () => {
  mock = await startMockModel();
});
after(() => mock.close());

/** Their timers never fire, so that a slow connection is no failure. */
function modelsOf(environment: Environment) {
  return createModels(loadSettings(environment), stillEnv({ holdTimers: true }).env);
}

function describe(environment: Environment): string {
  return describeDefault(loadSettings(environment), stillEnv().env);
}

/** Options that point a provider at the mock. */
function options(more: Record<string, object>): Environment {
  return { SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify(more) };
}

/** Calls a route; returns the request that the mock received, and the response. */
async function call(models: ReturnType<typeof modelsOf>, id: string) {
  const route = models.routes.get(id);
  assert.ok(route, `there is a route ${id}`);
  const asked = mock.next();
  const reply = await models.provider(route).start(requestTo("x", { route, max_tokens: 9 }), listen().events).reply;
  return { asked: await asked, reply };
}

function refusalOf(environment: Environment): string {
  let message = "";
  assert.throws(
    () => modelsOf(environment),
    (error) => {
      message = String(error);
      return error instanceof SettingsError;
    },
  );
  return message;
}

test("SPEC-021 the built-in table has a registered provider for every id, each id once", () => {
  const ids = builtInRoutes.map((route) => route.id);

  assert.equal(new Set(ids).size, ids.length);
  for (const route of builtInRoutes)
    assert.ok((modelProviders as readonly string[]).includes(route.provider), route.id);
});

test("SPEC-021 the built-in table leads to the models that its ids name", () => {
  const models = Object.fromEntries(builtInRoutes.map(({ id, provider, model }) => [id, `${provider} ${model}`]));

  assert.deepEqual(models, {
    "claude-opus": "anthropic claude-opus-5",
    "claude-sonnet": "anthropic claude-sonnet-5",
    "claude-haiku": "anthropic claude-haiku-4-5",
    "claude-fable": "anthropic claude-fable-5",
    "gpt-4.1": "openai gpt-4.1",
    "gpt-4.1-mini": "openai gpt-4.1-mini",
    "glm-5.3-cf": "workers_ai @cf/zai-org/glm-5.3",
    "glm-5.3-flash-cf": "workers_ai @cf/zai-org/glm-5.3-flash",
    "deepseek-v4-pro-cf": "workers_ai @cf/deepseek-ai/deepseek-v4-pro-0813",
    "deepseek-v4-flash-cf": "workers_ai @cf/deepseek-ai/deepseek-v4-flash-0731",
    "qwen3.8-27b-cf": "workers_ai @cf/qwen/qwen3.8-27b",
    "kimi-k2.7-code-cf": "workers_ai @cf/moonshotai/kimi-k2.7-code",
    "kimi-k2-cf": "workers_ai @cf/moonshotai/kimi-k2.6",
    "gpt-oss-120b-cf": "workers_ai @cf/openai/gpt-oss-120b",
    "gpt-oss-20b-cf": "workers_ai @cf/openai/gpt-oss-20b",
    "glm-flash-cf": "workers_ai @cf/zai-org/glm-4.7-flash",
    "llama-3-pro": "workers_ai @cf/zai-org/glm-5.3",
    "llama-3-fast": "workers_ai @cf/zai-org/glm-5.3-flash",
  });
});

test("prices are those of the source, and unknown figures are not guessed", () => {
  const priced = Object.fromEntries(
    builtInRoutes.flatMap(({ id, price }) => (price ? [[id, `${price.input}/${price.output}`]] : [])),
  );
  const { context_window, modalities } = builtInRoutes.find(({ id }) => id === "gpt-oss-20b-cf") ?? {};

  assert.deepEqual(priced, {
    "claude-sonnet": "2/10",
    "claude-opus": "5/25",
    "gpt-4.1": "2/8",
    "gpt-4.1-mini": "0.4/1.6",
  });
  assert.equal(context_window, 128_000);
  assert.deepEqual(modalities, ["text"]);
});

test("SPEC-021 SVC_MODEL_ROUTES replaces and adds routes, and calls follow them", async () => {
  const models = modelsOf({
    SVC_MODEL_ROUTES: JSON.stringify({
      mine: {
        provider: "groq",
        model: "mock-text",
        modalities: ["text", "image"],
        context_window: 4096,
        max_output_tokens: 1024,
        tools_max: 128,
        parameters: ["max_tokens"],
        price: { input: 1, output: 2 },
      },
      "gpt-4.1": { provider: "groq", model: "mock-text" },
    }),
    ...options({ groq: { base_url: mock.url } }),
  });

  const { asked, reply } = await call(models, "gpt-4.1");

  assert.equal(asked.model, "mock-text");
  assert.equal(reply.text, "Hello from the mock.");
  assert.deepEqual(models.routes.get("mine"), {
    id: "mine",
    provider: "groq",
    model: "mock-text",
    modalities: ["text", "image"],
    context_window: 4096,
    max_output_tokens: 1024,
    tools_max: 128,
    parameters: ["max_tokens"],
    price: { input: 1, output: 2, cache_read: 1, cache_write: 1 },
  });
  assert.deepEqual([...models.routes.keys()].slice(0, 3), ["mine", "gpt-4.1", "claude-sonnet"]);
  assert.equal([...models.routes.keys()].filter((id) => id === "gpt-4.1").length, 1);
});

test("SVC_MODEL_ROUTES keeps fields it omits of a built-in route, unknown for new ones", () => {
  const { routes } = modelsOf({
    SVC_MODEL_ROUTES: JSON.stringify({
      "gpt-4.1": { provider: "openrouter", model: "openai/gpt-4.1" },
      new: { provider: "openrouter", model: "new" },
    }),
  });

  const { price, max_output_tokens, parameters } = routes.get("gpt-4.1") ?? {};
  assert.deepEqual([price?.input, max_output_tokens, parameters], [2, 32_768, null]);
  const { id: _id, provider: _provider, model: _model, ...figures } = routes.get("new") ?? {};
  assert.deepEqual(figures, unknownFigures);
  assert.deepEqual([unknownFigures.context_window, unknownFigures.max_output_tokens], [128_000, null]);
});

test("SPEC-022 twelve hosted providers are built in, and a key is all that they need", () => {
  const models = modelsOf({
    ...Object.fromEntries(modelProviders.map((name) => [`SVC_${name.toUpperCase()}_API_KEY`, `key-of-${name}`])),
    SVC_MODEL_ROUTES: JSON.stringify(
      Object.fromEntries(modelProviders.map((provider) => [provider, { provider, model: "m" }])),
    ),
    ...options({ workers_ai: { account_id: "acc", gateway_id: "gate" } }),
  });

  assert.equal(modelProviders.length, 12);
  for (const name of modelProviders) {
    const route = models.routes.get(name);
    assert.ok(route);
    assert.equal(models.provider(route).name, name);
    assert.equal(models.provider(route), models.provider(route), "made once");
  }
});

test("SPEC-022 options of a provider reach its calls: address, key and timeout", async () => {
  const environment = {
    OPENAI_API_KEY: "from-the-environment",
    ...options({ openai: { base_url: `${mock.url}/`, api_key: "from-the-options", timeout: 0.05 } }),
    SVC_MODEL_ROUTES: JSON.stringify({
      quick: { provider: "openai", model: "mock-text" },
      hanging: { provider: "openai", model: "mock-hang" },
    }),
  };

  const { asked } = await call(modelsOf(environment), "quick");

  assert.equal(asked.headers.authorization, "Bearer from-the-options");
  assert.equal(asked.body.max_tokens, 9);
  await assert.rejects(
    call(createModels(loadSettings(environment), systemEnv()), "hanging"),
    (failure) => failure instanceof ModelFailure && failure.timedOut,
  );
});

test("SPEC-022 SVC_<PROVIDER>_API_KEY goes before <PROVIDER>_API_KEY", async () => {
  const route = { SVC_MODEL_ROUTES: JSON.stringify({ r: { provider: "xai", model: "mock-text" } }) };
  const address = options({ xai: { base_url: mock.url } });

  const both = await call(modelsOf({ ...route, ...address, SVC_XAI_API_KEY: "first", XAI_API_KEY: "second" }), "r");
  const one = await call(modelsOf({ ...route, ...address, XAI_API_KEY: "second" }), "r");

  assert.equal(both.asked.headers.authorization, "Bearer first");
  assert.equal(one.asked.headers.authorization, "Bearer second");
});

test("a provider with an address and no key is called without Authorization", async () => {
  const models = modelsOf({
    SVC_MODEL_ROUTES: JSON.stringify({ local: { provider: "openai", model: "mock-text" } }),
    ...options({ openai: { base_url: mock.url } }),
  });

  const { asked } = await call(models, "local");

  assert.equal("authorization" in asked.headers, false);
  assert.equal(models.defaultModelId, "local");
});

test("Mistral is not asked for usage, which it refuses, and sends usage anyway", async () => {
  const models = modelsOf({
    SVC_MODEL_ROUTES: JSON.stringify({ m: { provider: "mistral", model: "mock-usage-unasked" } }),
    ...options({ mistral: { base_url: mock.url } }),
  });

  const { asked, reply } = await call(models, "m");

  assert.equal("stream_options" in asked.body, false);
  assert.equal(reply.usage?.input, 50);
});

test("SPEC-023 a route to a provider that is not registered fails the start", () => {
  const message = refusalOf({ SVC_MODEL_ROUTES: JSON.stringify({ r: { provider: "nope", model: "m" } }) });

  assert.match(message, /SVC_MODEL_ROUTES r: names an unknown provider; known are openai, anthropic/);
});

const embedding = (provider: string, more: object = {}) => ({ provider, model: "m", kind: "embedding", ...more });
const routesOf = (routes: object) => ({ SVC_MODEL_ROUTES: JSON.stringify(routes) });

test("a route of kind embedding is no agent's model, even with a built-in id", () => {
  const models = modelsOf({
    ...routesOf({ "gpt-4.1": embedding("openai", { price: { input: 2 } }), other: embedding("groq") }),
    OPENAI_API_KEY: "key",
  });

  assert.deepEqual([...models.embeddings.keys()], ["gpt-4.1", "other"]);
  assert.deepEqual(
    ["gpt-4.1", "other"].filter((id) => models.routes.has(id)),
    [],
  );
  assert.equal(models.defaultModelId, "gpt-4.1-mini");
  assert.deepEqual(models.embeddings.get("gpt-4.1")?.price, { input: 2, output: 0, cache_read: 2, cache_write: 2 });
  assert.equal(models.embeddings.get("other")?.price, null);
});

test("SET-012 SVC_MEMORY_EMBEDDER auto is the first callable route, else none", () => {
  const routes = routesOf({ first: embedding("groq"), second: embedding("openai"), third: embedding("openai") });
  const chosen = (environment: Record<string, string>) => modelsOf(environment).memoryEmbedding?.id ?? null;

  assert.equal(chosen({}), null);
  assert.equal(chosen(routes), null);
  assert.equal(chosen({ ...routes, OPENAI_API_KEY: "key" }), "second");
  assert.equal(chosen({ ...routes, OPENAI_API_KEY: "key", SVC_MEMORY_EMBEDDER: "auto" }), "second");
  assert.equal(chosen({ ...routes, OPENAI_API_KEY: "key", SVC_MEMORY_EMBEDDER: "none" }), null);
  assert.equal(chosen({ ...routes, SVC_MEMORY_EMBEDDER: "third" }), "third");
  assert.equal(chosen({ ...routes, SVC_MEMORY_EMBEDDER: "openai" }), "second");
});

test("the embeddings of a gateway are asked for under any provider's name", () => {
  const models = modelsOf({ ...routesOf({ e: embedding("anthropic") }), SVC_LITELLM_BASE_URL: "http://gateway.test" });

  assert.equal(models.memoryEmbedding?.id, "e");
});

for (const [name, environment, wanted] of [
  [
    "SET-012 an embedder that nobody has",
    { SVC_MEMORY_EMBEDDER: "nobody" },
    /SVC_MEMORY_EMBEDDER names neither an embedding route nor a provider with one; there is none in SVC_MODEL_ROUTES/,
  ],
  [
    "SET-012 an embedder that is a chat route",
    { ...routesOf({ e: embedding("openai") }), SVC_MEMORY_EMBEDDER: "gpt-4.1" },
    /SVC_MEMORY_EMBEDDER names neither an embedding route nor a provider with one; known are e/,
  ],
  [
    "SET-012 an embedder that is not built",
    { SVC_MEMORY_EMBEDDER: "sentence_transformers" },
    /SVC_MEMORY_EMBEDDER sentence_transformers needs the package @huggingface\/transformers/,
  ],
  [
    "an embedding route of a provider without embeddings",
    routesOf({ e: embedding("anthropic") }),
    /SVC_MODEL_ROUTES e: anthropic has no embeddings/,
  ],
  ["an embedding route of nobody", routesOf({ e: embedding("nope") }), /SVC_MODEL_ROUTES e: names an unknown provider/],
  ["options of an unknown provider", options({ nope: { base_url: "http://x" } }), /nope: is an unknown provider/],
  ["a gateway without an account", options({ workers_ai: { gateway_id: "g" } }), /gateway_id needs account_id/],
  [
    "an account beside an address",
    options({ workers_ai: { account_id: "a", base_url: "http://x" } }),
    /base_url and account_id exclude each other/,
  ],
  [
    "a route called demo",
    { SVC_MODEL_ROUTES: '{"demo":{"provider":"openai","model":"m"}}' },
    /demo: this is the built-in offline model/,
  ],
  [
    "a default that is not there",
    { SVC_DEFAULT_MODEL_ID: "nope" },
    /SVC_DEFAULT_MODEL_ID names no model route; known are claude-sonnet/,
  ],
  [
    "a vision route that is not there",
    { SVC_DEFAULT_VISION_MODEL_ID: "nope" },
    /SVC_DEFAULT_VISION_MODEL_ID names no model route; known are claude-sonnet/,
  ],
  [
    "a vision route that takes text only",
    { SVC_DEFAULT_VISION_MODEL_ID: "gpt-oss-20b-cf" },
    /SVC_DEFAULT_VISION_MODEL_ID names gpt-oss-20b-cf, which takes no images/,
  ],
  [
    "demo as default in production",
    { SVC_DEFAULT_MODEL_ID: "demo", SVC_ENVIRONMENT: "production" },
    /names no model route/,
  ],
] as const) {
  test(`${name} fails the start`, () => {
    assert.match(refusalOf(environment), wanted);
  });
}

for (const [name, environment, id, described] of [
  [
    "nothing is set",
    {},
    "demo",
    "demo (offline; set OPENAI_API_KEY, ANTHROPIC_API_KEY or the key of another provider)",
  ],
  ["Anthropic has a key", { ANTHROPIC_API_KEY: "k" }, "claude-sonnet", "claude-sonnet (anthropic)"],
  ["OpenAI has a key", { SVC_OPENAI_API_KEY: "k" }, "gpt-4.1", "gpt-4.1 (openai)"],
  [
    "Workers AI has a key and an account",
    { WORKERS_AI_API_KEY: "k", ...options({ workers_ai: { account_id: "a" } }) },
    "glm-5.3-cf",
    "glm-5.3-cf (workers_ai)",
  ],
  ["Workers AI has a key and no account", { WORKERS_AI_API_KEY: "k" }, "demo", null],
  ["several have a key", { OPENAI_API_KEY: "k", ANTHROPIC_API_KEY: "k" }, "claude-sonnet", "claude-sonnet (anthropic)"],
  ["a provider without a route has a key", { GROQ_API_KEY: "k" }, "demo", null],
  [
    "a provider has an address alone",
    options({ openai: { base_url: "http://127.0.0.1:1" } }),
    "gpt-4.1",
    "gpt-4.1 (openai)",
  ],
  [
    "the operator's own route can be called",
    {
      OPENAI_API_KEY: "k",
      SVC_MODEL_ROUTES: '{"a":{"provider":"groq","model":"m"},"b":{"provider":"openai","model":"m"}}',
    },
    "b",
    "b (openai)",
  ],
  [
    "the operator chooses",
    { OPENAI_API_KEY: "k", SVC_DEFAULT_MODEL_ID: "gpt-4.1-mini" },
    "gpt-4.1-mini",
    "gpt-4.1-mini (openai)",
  ],
  ["the operator chooses demo", { OPENAI_API_KEY: "k", SVC_DEFAULT_MODEL_ID: "demo" }, "demo", null],
  [
    "there is a gateway",
    { SVC_LITELLM_BASE_URL: "http://127.0.0.1:1" },
    "claude-sonnet",
    "claude-sonnet (anthropic, through the gateway of SVC_LITELLM_BASE_URL)",
  ],
  [
    "nothing is set in production",
    { SVC_ENVIRONMENT: "production" },
    "claude-sonnet",
    "claude-sonnet (anthropic, which has no credential: turns answer model_not_configured; set SVC_ANTHROPIC_API_KEY)",
  ],
] as const) {
  test(`the default model when ${name} is ${id}`, () => {
    const models = modelsOf(environment);

    assert.equal(models.defaultModelId, id);
    assert.ok(models.routes.has(id));
    if (described !== null) assert.equal(describe(environment), described);
  });
}

test("demo is offered when it is the default or asked for, and never in production", () => {
  const has = (environment: Environment): boolean => modelsOf(environment).routes.has("demo");

  assert.equal(has({}), true);
  assert.equal(has({ OPENAI_API_KEY: "k" }), false);
  assert.equal(has({ OPENAI_API_KEY: "k", SVC_DEMO_MODEL: "true" }), true);
  assert.equal(has({ SVC_DEMO_MODEL: "true", SVC_ENVIRONMENT: "production" }), false);
  assert.equal(has({ SVC_ENVIRONMENT: "production" }), false);
});

test("demo is last among the routes, and answers", async () => {
  const settings = loadSettings({ OPENAI_API_KEY: "k", SVC_DEMO_MODEL: "true" });
  const models = createModels(settings, stillEnv().env);
  const route = [...models.routes.values()].at(-1);
  assert.ok(route);

  const reply = await models.provider(route).start(requestTo("demo"), listen().events).reply;

  assert.equal(route.id, "demo");
  assert.match(reply.text, /offline demo model/);
});

test("a route without a credential is refused with model_not_configured", () => {
  const models = modelsOf({ WORKERS_AI_API_KEY: "k" });

  for (const [id, subject] of [
    ["claude-sonnet", "anthropic"],
    ["glm-5.3-cf", "workers_ai"],
  ] as const) {
    const route = models.routes.get(id);
    assert.ok(route);
    assert.throws(
      () => models.provider(route),
      (error) =>
        error instanceof SvcError &&
        error.code === "model_not_configured" &&
        error.status === 503 &&
        error.details.subject === subject,
    );
  }
});

test("SET-014 SVC_LITELLM_BASE_URL takes all calls with their model and key", async () => {
  const models = modelsOf({
    SVC_LITELLM_BASE_URL: `${mock.url}/`,
    OPENAI_API_KEY: "gateway-key",
    SVC_MODEL_ROUTES: JSON.stringify({
      a: { provider: "openai", model: "mock-text" },
      b: { provider: "mistral", model: "mock-usage-cached" },
    }),
    ...options({ openai: { base_url: "http://127.0.0.1:1" } }),
  });

  const a = await call(models, "a");
  const b = await call(models, "b");

  assert.deepEqual([a.asked.model, a.asked.headers.authorization], ["mock-text", "Bearer gateway-key"]);
  assert.deepEqual([b.asked.model, b.asked.headers.authorization], ["mock-usage-cached", undefined]);
  assert.deepEqual(b.asked.body.stream_options, { include_usage: true });
  assert.equal(b.reply.usage?.cacheRead, 30);
});

test("a key by name is looked up in the environment when the route is used", async () => {
  const settings = {
    ...options({ groq: { base_url: mock.url, api_key: "secret:GROQ" } }),
    SVC_MODEL_ROUTES: '{"r":{"provider":"groq","model":"mock-text"}}',
  };

  const found = await call(modelsOf({ ...settings, SVC_SECRET_GROQ: "the-secret" }), "r");
  const missing = modelsOf(settings);
  const route = missing.routes.get("r");
  assert.ok(route);

  assert.equal(found.asked.headers.authorization, "Bearer the-secret");
  await assert.rejects(
    missing.provider(route).start(requestTo("mock-text"), listen().events).reply,
    (error) =>
      error instanceof SvcError &&
      error.code === "unresolved_secret" &&
      error.status === 503 &&
      error.details.subject === "GROQ",
  );
});

test("a key by name in a file is looked up for every call, and masked from then on", async (context) => {
  const directory = tempDir(cleanup(context));
  writeFileSync(join(directory, "groq"), "first-secret\n");
  const settings = loadSettings({
    ...options({ groq: { base_url: mock.url, api_key: "secret:groq" } }),
    SVC_MODEL_ROUTES: '{"r":{"provider":"groq","model":"mock-text"}}',
    SVC_SECRETS_BACKEND: "file",
    SVC_SECRETS_DIR: directory,
  });
  const mask = new SecretMask([]);
  const models = createModels(settings, stillEnv({ holdTimers: true }).env, mask);

  const first = await call(models, "r");
  writeFileSync(join(directory, "groq"), "second-secret\n");
  const second = await call(models, "r");

  assert.equal(first.asked.headers.authorization, "Bearer first-secret");
  assert.equal(second.asked.headers.authorization, "Bearer second-secret");
  assert.equal(mask.recorded.text("first-secret second-secret").includes("secret"), false);
});

function compileWith(environment: Environment, spec: object) {
  const { routes, decisions, defaultModelId } = modelsOf(environment);
  const registries = {
    tools: new Map(),
    routes,
    decisions,
    embeddings: new Set(),
    patterns: new Set(["react"]),
    defaultModelId,
    defaultVisionModelId: "",
    webhookEndpoints: new Map(),
    workspaceDeploymentTenants: [],
    hasRedis: false,
  };
  const manifest = parseManifest({ metadata: { name: "x" }, spec });
  return compile(manifest, registries, { tenantId: "default", version: null, texts: new Map() });
}

test("SPEC-011 a manifest without a model gets the default model", () => {
  const chosen = compileWith({ OPENAI_API_KEY: "k", SVC_DEFAULT_MODEL_ID: "gpt-4.1-mini" }, {});
  const unset = compileWith({}, { model: { id: null } });

  assert.equal(chosen.model.route.id, "gpt-4.1-mini");
  assert.equal(unset.model.route.id, "demo");
});

test("SPEC-020 spec.model.price goes before the built-in rates, and the cost follows", () => {
  const tokens = { input: 1_000_000, output: 1_000_000, cacheRead: 0, cacheWrite: 0 };
  const environment = { OPENAI_API_KEY: "k" };

  const plain = compileWith(environment, { model: { id: "gpt-4.1" } });
  const priced = compileWith(environment, { model: { id: "gpt-4.1", price: { output: 1 } } });

  assert.equal(costOf(tokens, plain.model.price).total, 10);
  assert.equal(costOf(tokens, priced.model.price).total, 3);
});

test("SPEC-024 max_cost_usd needs rates of the route or manifest; demo costs nothing", () => {
  const limits = { max_cost_usd: 1 };
  const environment = { ANTHROPIC_API_KEY: "k", SVC_DEMO_MODEL: "true" };

  assert.throws(
    () => compileWith(environment, { model: { id: "claude-haiku" }, limits }),
    (error) => error instanceof SvcError && error.code === "invalid_manifest",
  );
  assert.equal(
    compileWith(environment, { model: { id: "claude-haiku", price: { input: 1, output: 5 } }, limits }).model.price
      ?.output,
    5,
  );
  assert.equal(compileWith(environment, { model: { id: "claude-sonnet" }, limits }).model.price?.output, 10);
  assert.equal(compileWith(environment, { model: { id: "demo" }, limits }).model.price?.output, 0);
});

test("docs/models.md shows every built-in route, its figures and provider addresses", () => {
  // Tables may be padded.
  const page = readFileSync(new URL("../../../docs/models.md", import.meta.url), "utf8").replaceAll(/ +/g, " ");

  for (const { id, provider, model, context_window, max_output_tokens, modalities, price } of builtInRoutes) {
    const rates = price ? [price.input, price.output, price.cache_read, price.cache_write] : ["", "", "", ""];
    const cells = [
      `\`${id}\``,
      provider,
      `\`${model}\``,
      context_window.toLocaleString("en-US"),
      max_output_tokens?.toLocaleString("en-US") ?? "",
      modalities.join(", "),
      ...rates,
    ];
    const row = `| ${cells.join(" | ")} |`.replaceAll("|  ", "| ");
    assert.ok(page.includes(row), row);
  }
  for (const name of modelProviders) {
    const address =
      builtInProviders[name].baseUrl ??
      workersAiUrl("A", "G").replace("/A/", "/{account_id}/").replace("/G/", "/{gateway_id}/");
    assert.ok(page.includes(`| ${name} | `) && page.includes(`\`${address}\``), name);
  }
});
