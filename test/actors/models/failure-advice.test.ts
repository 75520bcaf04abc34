import assert from "node:assert/strict";
import { test } from "node:test";
import { failureAdvice } from "../../../actors/models/failure-advice.ts";
import { ModelFailure } from "../../../actors/models/provider.ts";
import { readSettings } from "../../../governance/settings/settings.ts";

const route = { id: "fast", provider: "groq", model: "llama-3" };
const advice = (facts: ConstructorParameters<typeof ModelFailure>[1], provider = "groq"): string =>
  failureAdvice({ ...route, provider }, new ModelFailure("x", facts));

test("the advice names the provider and the setting that the failure is about", () => {
  assert.match(advice({ status: 401 }), /groq.* SVC_GROQ_API_KEY or GROQ_API_KEY$/);
  assert.match(advice({ status: 403 }, "mine"), /api_key of mine in SVC_MODEL_PROVIDERS$/);
  assert.match(advice({ status: 404 }), /no model llama-3: look at fast in SVC_MODEL_ROUTES/);
  assert.match(advice({ status: 429 }), /spec\.model\.fallbacks$/);
  assert.match(advice({ status: 503 }), /failed by itself/);
  assert.match(advice({ status: 400 }), /does not take the request/);
  assert.match(advice({ unsendable: true }), /no header can carry: look at SVC_GROQ_API_KEY or GROQ_API_KEY$/);
  assert.match(advice({ timedOut: true }), /SVC_MODEL_TIMEOUT_SECONDS$/);
  assert.match(advice({}), /base_url of groq in SVC_MODEL_PROVIDER_OPTIONS/);
  assert.match(advice({}, "mine"), /base_url of mine in SVC_MODEL_PROVIDERS /);
});

test("every named setting exists", () => {
  const all = [{ status: 401 }, { status: 404 }, { timedOut: true }, {}].flatMap((facts) => [
    advice(facts),
    advice(facts, "mine"),
  ]);
  const named = all.flatMap((words) => words.match(/SVC_[A-Z_]+/g) ?? []);

  const { settings } = readSettings(Object.fromEntries(named.map((name) => [name, ""])));

  assert.ok(named.length > 5);
  assert.deepEqual(settings.unknownNames, []);
});
