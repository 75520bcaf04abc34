import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import { bootRefusals, bootWarnings } from "../../../governance/settings/boot-refusals.ts";
import { type Environment, loadSettings } from "../../../governance/settings/settings.ts";

const key = JSON.stringify({ "a-key-that-is-long-enough-01": { tenant_id: "acme", sub: "ci", scopes: ["admin"] } });
const trigger = JSON.stringify({
  deploys: { tenant: "acme", manifest: "quick", scheme: "github", secret: "a-secret-of-16-bytes", prompt: "Look." },
});

const cluster: Environment = {
  SVC_DATABASE_URL: "postgres://svc:secret@db/svc",
  SVC_REDIS_URL: "redis://redis:6379/0",
  SVC_CLUSTER_KEY: "0123456789abcdef".repeat(4),
  SVC_AUDIT_KEY: "fedcba9876543210".repeat(4),
};

describe("boot refusals", () => {
  const refused: [string, Environment, RegExp][] = [
    ["none on every address", { SVC_HOST: "0.0.0.0" }, /SVC_AUTH_MODE=none.*0\.0\.0\.0/],
    ["none on every IPv6 address", { SVC_HOST: "::" }, /SVC_AUTH_MODE=none/],
    [
      "none on another address, whatever SVC_ALLOW_INSECURE says",
      { SVC_HOST: "10.0.0.1", SVC_ALLOW_INSECURE: "1" },
      /none/,
    ],
    ["none in production", { SVC_ENVIRONMENT: "production" }, /not for production/],
    [
      "none in production, whatever SVC_ALLOW_INSECURE says",
      { SVC_ENVIRONMENT: "production", SVC_ALLOW_INSECURE: "1" },
      /none/,
    ],
    ["none in staging", { SVC_ENVIRONMENT: "staging" }, /SVC_ALLOW_INSECURE/],
    [
      "the demo model in production",
      { SVC_ENVIRONMENT: "production", SVC_AUTH_MODE: "jwt", SVC_DEMO_MODEL: "true" },
      /SVC_DEMO_MODEL/,
    ],
    [
      "demo as the default model in production",
      { SVC_ENVIRONMENT: "production", SVC_AUTH_MODE: "jwt", SVC_DEFAULT_MODEL_ID: "demo" },
      /SVC_DEFAULT_MODEL_ID/,
    ],
    [
      "several workers",
      { SVC_WORKERS: "2" },
      /^SVC_WORKERS above 1 needs .* SVC_CLUSTER_KEY, by which processes share a deployment; use 1\.$/,
    ],
    ["no duty at all", { SVC_DUTIES: "," }, /SVC_DUTIES names no duty/],
    [
      "a cluster key without the others",
      { SVC_CLUSTER_KEY: cluster.SVC_CLUSTER_KEY },
      /needs SVC_DATABASE_URL .* SVC_REDIS_URL/,
    ],
    [
      "a host of a cluster with objects in memory",
      { ...cluster, SVC_OBJECT_STORE: "memory" },
      /memory is of one process/,
    ],
    ["a host of a cluster without the key of audits", { ...cluster, SVC_AUDIT_KEY: "" }, /needs SVC_AUDIT_KEY/],
    [
      "a route to an unknown provider",
      { SVC_MODEL_ROUTES: '{"m": {"provider": "nobody", "model": "x"}}' },
      /SVC_MODEL_ROUTES: m names an unknown provider/,
    ],
    [
      "a decider of an unknown provider",
      { SVC_DECISION_ROUTES: '{"d": {"provider": "openai", "model": "x"}}' },
      /SVC_DECISION_ROUTES: d names an unknown provider; known are workers_ai, typesafe, llm/,
    ],
    ["options of an unknown provider", { SVC_MODEL_PROVIDER_OPTIONS: '{"nobody": {}}' }, /SVC_MODEL_PROVIDER_OPTIONS/],
    [
      "a trigger of a tenant that is not allowed",
      { SVC_TRIGGERS: trigger, SVC_ALLOWED_TENANTS: "other" },
      /SVC_TRIGGERS: deploys names a tenant that is not in SVC_ALLOWED_TENANTS/,
    ],
    [
      "a key of a tenant that is not allowed",
      { SVC_AUTH_API_KEYS: key, SVC_ALLOWED_TENANTS: "other" },
      /SVC_AUTH_API_KEYS: entry 1 names a tenant/,
    ],
    ["a search backend without an address", { SVC_SEARCH_BACKEND: "searxng" }, /searxng needs SVC_SEARCH_URL/],
    [
      "a search service over http",
      { SVC_SEARCH_BACKEND: "searxng", SVC_SEARCH_URL: "http://search.test" },
      /SVC_SEARCH_URL is not https/,
    ],
    [
      "a search service over http in staging, whatever SVC_ALLOW_INSECURE says",
      { SVC_SEARCH_URL: "http://search.test", SVC_ENVIRONMENT: "staging", SVC_ALLOW_INSECURE: "1" },
      /SVC_SEARCH_URL is not https/,
    ],
    [
      "a proxy on all addresses for a browser that is told none",
      { SVC_BROWSERS: '{"main":{"url":"http://b:9222","tenants":"*"}}', SVC_BROWSER_PROXY_BIND: "0.0.0.0:8901" },
      /SVC_BROWSERS: main needs proxy/,
    ],
    ["a search key that is not set", { SVC_SEARCH_API_KEY: "secret:NONE" }, /SVC_SEARCH_API_KEY names an SVC_SECRET_/],
  ];
  for (const [name, environment, reason] of refused) {
    test(`${name} is refused`, () => {
      const refusals = bootRefusals(loadSettings(environment));

      assert.equal(refusals.length, 1);
      assert.match(refusals[0] ?? "", reason);
    });
  }

  const accepted: [string, Environment][] = [
    ["nothing set", {}],
    ["a host of a cluster", cluster],
    ["a host of a cluster with one duty", { ...cluster, SVC_DUTIES: "scheduler" }],
    ["several worker processes of a cluster", { ...cluster, SVC_WORKERS: "2" }],
    ["a process for requests alone, without a cluster", { SVC_DUTIES: "api" }],
    [
      "a search service over http in development when allowed",
      { SVC_SEARCH_BACKEND: "searxng", SVC_SEARCH_URL: "http://127.0.0.1:8888", SVC_ALLOW_INSECURE: "1" },
    ],
    ["none on loopback in staging when allowed", { SVC_ENVIRONMENT: "staging", SVC_ALLOW_INSECURE: "true" }],
    ["keys on every address", { SVC_HOST: "0.0.0.0", SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: key }],
    ["keys in production", { SVC_ENVIRONMENT: "production", SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: key }],
    [
      "base URLs of one's own in production",
      {
        SVC_ENVIRONMENT: "production",
        SVC_AUTH_MODE: "jwt",
        SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"base_url": "http://127.0.0.1:1/v1"}}',
      },
    ],
    ["a trigger of an allowed tenant", { SVC_TRIGGERS: trigger, SVC_ALLOWED_TENANTS: "acme" }],
    ["a key of an allowed tenant", { SVC_AUTH_API_KEYS: key, SVC_ALLOWED_TENANTS: "acme" }],
  ];
  for (const [name, environment] of accepted) {
    test(`${name} is accepted`, () => {
      assert.deepEqual(bootRefusals(loadSettings(environment)), []);
    });
  }
});

const edKey = { ...generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" }), kid: "sig" };

describe("boot warnings", () => {
  const warned: [string, Environment, RegExp][] = [
    ["a misspelt setting", { SVC_AUTH_MDOE: "jwt" }, /SVC_AUTH_MDOE is not a setting/],
    ["api_key without keys", { SVC_AUTH_MODE: "api_key" }, /SVC_AUTH_API_KEYS is empty/],
    [
      "an encryption key beside a usable one",
      { SVC_JWKS_PUBLIC: JSON.stringify({ keys: [edKey, { ...edKey, kid: "enc", use: "enc", alg: "RSA-OAEP" }] }) },
      /SVC_JWKS_PUBLIC: key 2: use must be sig; this key is skipped/,
    ],
    ["jwt without keys", { SVC_AUTH_MODE: "jwt" }, /SVC_JWKS_PUBLIC is not set/],
    [
      "secrets that can be guessed, each setting once,",
      {
        SVC_SECRET_DB: "correct-horse-battery-staple",
        SVC_SECRET_STRONG: "planted-secret-0001",
        SVC_GROQ_API_KEY: "gsk_short",
        SVC_DATABASE_URL: "postgres://svc:hunter2@db.internal:5432/svc",
        SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"api_key": "short"}, "groq": {"api_key": "secret:DB"}}',
      },
      /^SVC_GROQ_API_KEY, SVC_SECRET_DB, SVC_MODEL_PROVIDER_OPTIONS, SVC_DATABASE_URL: secrets of fewer than 16/,
    ],
    [
      "open chat scopes in production",
      { SVC_ENVIRONMENT: "production", SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: key },
      /SVC_CHAT_SCOPES=strict is recommended/,
    ],
  ];
  for (const [name, environment, warning] of warned) {
    test(`${name} is warned of`, () => {
      const warnings = bootWarnings(loadSettings(environment));

      assert.deepEqual(
        warnings.map((sentence) => warning.test(sentence)),
        [true],
      );
    });
  }

  test("a short key of a caller is warned of by its entry, and as a secret", () => {
    const keys = '{"short": {"tenant_id": "a", "sub": "b", "scopes": []}}';

    const [ofMask, ofEntry, ...others] = bootWarnings(
      loadSettings({ SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: keys }),
    );

    assert.match(ofMask ?? "", /^SVC_AUTH_API_KEYS: secrets of fewer/);
    assert.match(ofEntry ?? "", /the key of entry 1 has 5 characters/);
    assert.deepEqual(others, []);
  });

  test("the embedded default gives no warning", () => {
    assert.deepEqual(bootWarnings(loadSettings({})), []);
  });
});
