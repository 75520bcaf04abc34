import assert from "node:assert/strict";
import { test } from "node:test";
import { probeProviders } from "../../../actors/models/provider-probe.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { SecretMask, Secrets } from "../../../governance/secret-mask.ts";
import { modelProviders } from "../../../governance/settings/model-options.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";

test("each hosted provider is probed at a list that needs its key", async (context) => {
  const settings = loadSettings({
    ...Object.fromEntries(modelProviders.map((name) => [`${name.toUpperCase()}_API_KEY`, `key-of-${name}-0001`])),
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ workers_ai: { account_id: "acc" } }),
  });
  const mask = new SecretMask(settings.secretValues);
  const looked: string[] = [];
  // Nothing leaves this machine: no name resolves.
  const egress = new Egress("operator", (name, _options, done) => {
    looked.push(name);
    done(Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: "ENOTFOUND" }), []);
  });
  context.after(() => egress.close());

  const tried = await probeProviders({
    settings,
    env: systemEnv(),
    mask,
    secrets: new Secrets(settings, mask),
    egress,
  });

  const urls = Object.fromEntries(tried.map(({ name, detail }) => [name, detail.split(" ")[0]]));
  assert.deepEqual(Object.keys(urls), [...modelProviders]);
  assert.equal(urls.openai, "https://api.openai.com/v1/models");
  assert.equal(urls.anthropic, "https://api.anthropic.com/v1/models");
  assert.equal(urls.openrouter, "https://openrouter.ai/api/v1/key");
  assert.equal(urls.workers_ai, "https://api.cloudflare.com/client/v4/accounts/acc/ai/models/search?per_page=1");
  assert.equal(looked.length, modelProviders.length);
  for (const { status, detail } of tried) {
    assert.equal(status, "unreachable");
    assert.match(detail, /does not answer: getaddrinfo ENOTFOUND/);
  }
});

test("a provider whose name never resolves is given up after five seconds", async (context) => {
  const settings = loadSettings({ OPENAI_API_KEY: "key-of-openai-0001" });
  const mask = new SecretMask(settings.secretValues);
  const egress = new Egress("operator", () => {});
  context.after(() => egress.close());
  const delays: number[] = [];
  const env = {
    ...systemEnv(),
    timer(delayMs: number, work: () => void) {
      delays.push(delayMs);
      const handle = setImmediate(work);
      return { cancel: () => clearImmediate(handle) };
    },
  };

  const tried = await probeProviders({ settings, env, mask, secrets: new Secrets(settings, mask), egress });

  assert.deepEqual(tried, [
    {
      name: "openai",
      status: "unreachable",
      detail: "https://api.openai.com/v1/models does not answer within 5 seconds",
    },
  ]);
  assert.deepEqual(delays, [5_000]);
});
