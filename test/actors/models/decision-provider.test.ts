// Decision models: the built-in ones, their addresses, and the parsing of their answers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChunkError } from "../../../actors/models/chunk.ts";
import { createModels } from "../../../actors/models/create-models.ts";
import { decisionAddress } from "../../../actors/models/decision-provider.ts";
import { DecisionReader } from "../../../actors/models/decision-reader.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { ProviderOptions } from "../../../governance/settings/model-options.ts";
import { type Environment, loadSettings } from "../../../governance/settings/settings.ts";
import { SettingsError } from "../../../governance/settings/settings-error.ts";
import type { ModelRoute } from "../../../manifests/registries.ts";

const modelsOf = (environment: Environment) => createModels(loadSettings(environment), systemEnv());
const routesOf = (routes: object) => ({ SVC_DECISION_ROUTES: JSON.stringify(routes) });

test("SPEC-059 the built-in deciders, their models and rates", () => {
  const { decisions } = modelsOf({});

  const told = [...decisions.values()].map(({ id, route }) =>
    [id, route?.provider, route?.model, route?.price?.input, route?.price?.output].map((part) => part ?? "-").join(" "),
  );
  assert.deepEqual(told, [
    "clef workers_ai @cf/cloudflare/clef 0.24 0",
    "clef-flash workers_ai @cf/cloudflare/clef-flash 0.09 0",
    "jev typesafe jev-latest 0.042 0",
    "jev-cf workers_ai typesafe/jev - -",
    "keyword - - - -",
    "small-llm demo demo 0 0",
  ]);
  assert.equal(modelsOf({ ANTHROPIC_API_KEY: "k" }).decisions.get("small-llm")?.route?.id, "claude-haiku");
  assert.equal(modelsOf({ OPENAI_API_KEY: "k" }).decisions.get("small-llm")?.route?.id, "gpt-4.1-mini");
});

test("SVC_DECISION_ROUTES adds and replaces deciders; the same model keeps its rates", () => {
  const price = { input: 1, output: 0 };
  const { decisions } = modelsOf(
    routesOf({
      mine: { provider: "typesafe", model: "mine-1", price },
      clef: { provider: "workers_ai", model: "@cf/cloudflare/clef" },
      jev: { provider: "typesafe", model: "jev-1.13.0" },
      keyword: { provider: "llm", model: "gpt-4.1" },
    }),
  );

  assert.deepEqual(decisions.get("mine")?.route?.price, { ...price, cache_read: 1, cache_write: 1 });
  assert.equal(decisions.get("clef")?.route?.price?.input, 0.24);
  assert.equal(decisions.get("jev")?.route?.price, null);
  assert.deepEqual(
    [decisions.get("keyword")?.route?.id, decisions.get("keyword")?.route?.decides],
    ["gpt-4.1", undefined],
  );
});

test("a meaningless SVC_DECISION_ROUTES stops the start", () => {
  for (const [routes, words] of [
    [{ d: { provider: "llm", model: "nowhere" } }, /SVC_DECISION_ROUTES d: names no model route/],
    [{ d: { provider: "llm", model: "gpt-4.1", price: { input: 1, output: 1 } } }, /d: price/],
    [{ d: { provider: "typesafe" } }, /d/],
    [{ d: { provider: "typesafe", model: "m", modle: 1 } }, /d has a key other than/],
    [{ "a b": { provider: "typesafe", model: "m" } }, /entry 1/],
  ] as const)
    assert.throws(
      () => modelsOf(routesOf(routes)),
      (error) => error instanceof SettingsError && words.test(error.message),
      JSON.stringify(routes),
    );
});

test("a decider's address follows from its provider's options and the gateway", () => {
  const at = (provider: string, model: string, options: ProviderOptions = {}, gateway = "") => {
    const address = decisionAddress({ provider, model } as ModelRoute, options, gateway);
    return address && address.baseUrl + address.path;
  };
  const clef = ["workers_ai", "@cf/cloudflare/clef"] as const;
  const jev = ["typesafe", "jev-latest"] as const;

  assert.equal(
    at(...clef, { account_id: "a/b" }),
    "https://api.cloudflare.com/client/v4/accounts/a%2Fb/ai/run/@cf/cloudflare/clef",
  );
  assert.equal(
    at(...clef, { account_id: "a", gateway_id: "g" }),
    "https://gateway.ai.cloudflare.com/v1/a/g/workers-ai/@cf/cloudflare/clef",
  );
  assert.equal(at(...clef, { base_url: "http://h:1/v1/" }), "http://h:1/run/@cf/cloudflare/clef");
  assert.equal(at(...clef, { account_id: "a" }, "http://gate:4000"), null);
  assert.equal(at("workers_ai", "x?y#z", { base_url: "http://h" }), "http://h/run/x%3Fy%23z");
  assert.equal(at(...jev), "https://api.typesafe.ai/v1/systemone");
  assert.equal(at(...jev, { base_url: "http://h/api" }), "http://h/api/systemone");
  assert.equal(at(...jev, {}, "http://gate:4000/v1"), "http://gate:4000/typesafe/v1/systemone");
});

test("a decider without a credential is refused at its use, and others are made once", () => {
  const models = modelsOf({ TYPESAFE_API_KEY: "k" });
  const routeOf = (id: string) => models.decisions.get(id)?.route as ModelRoute;

  assert.equal(models.provider(routeOf("jev")), models.provider(routeOf("jev")));
  for (const id of ["clef", "clef-flash", "jev-cf"])
    assert.throws(() => models.provider(routeOf(id)), { code: "model_not_configured" });
  const both = modelsOf({
    WORKERS_AI_API_KEY: "k",
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ workers_ai: { account_id: "a" } }),
  });
  const [clef, flash] = ["clef", "clef-flash"].map((id) => both.decisions.get(id)?.route as ModelRoute);
  assert.notEqual(both.provider(clef as ModelRoute), both.provider(flash as ModelRoute));
});

test("answers are read from parts and envelopes, and an invalid answer has no text", () => {
  const told: string[] = [];
  const read = (body: unknown) =>
    new DecisionReader({ text: (delta) => told.push(delta), reasoning: () => {}, calls: () => {} }).whole(
      typeof body === "string" ? body : JSON.stringify(body, null, 2),
    );
  const answer = { type: "choice", choice: "a", confidence: 0.5, probabilities: { a: 0.75, b: 0.25 } };
  const body = { answers: { decision: answer }, usage: { input_tokens: 12, output_tokens: 3 } };

  for (const sent of [body, { result: body, success: true, errors: [] }]) {
    const { text, usage, stop_reason } = read(sent);
    assert.deepEqual(JSON.parse(text), { choice: "a", confidence: 0.5, probabilities: { a: 0.75, b: 0.25 } });
    assert.deepEqual(usage, { input: 12, output: 3, cacheRead: 0, cacheWrite: 0 });
    assert.equal(stop_reason, "end_turn");
  }
  for (const sent of [
    {},
    { answers: null },
    { answers: { other: answer } },
    { answers: { decision: { choice: 7 } } },
    [],
  ])
    assert.deepEqual([read(sent).text, read(sent).usage], ["", null]);
  for (const sent of [
    "",
    "no",
    "7",
    { error: "Busy." },
    { success: false },
    { success: false, errors: [{ message: "No." }] },
  ])
    assert.throws(() => read(sent), ChunkError, JSON.stringify(sent));
  assert.deepEqual(told, []);
});
