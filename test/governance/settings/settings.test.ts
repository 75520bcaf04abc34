import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { describe, test } from "node:test";
import fc from "fast-check";
import { isLoopback } from "../../../governance/settings/hosts.ts";
import { modelProviders } from "../../../governance/settings/model-options.ts";
import {
  type Environment,
  loadSettings,
  readSettings,
  settingsSections,
  withoutSigningKey,
} from "../../../governance/settings/settings.ts";
import { SettingsError } from "../../../governance/settings/settings-error.ts";
import { storeConfigOf } from "../../../governance/settings/store-config.ts";
import { unbuiltSettings } from "../../../governance/settings/unbuilt.ts";

function issuesOf(environment: Environment): Record<string, string> {
  return Object.fromEntries(readSettings(environment).issues.map(({ name, reason }) => [name, reason]));
}

describe("defaults", () => {
  test("an empty environment gives the embedded server on loopback", () => {
    const settings = loadSettings({});

    assert.equal(settings.environment, "development");
    assert.equal(settings.host, "127.0.0.1");
    assert.equal(settings.port, 8080);
    assert.equal(settings.authMode, "none");
    assert.equal(settings.rateLimit, 120);
    assert.equal(settings.rateLimitWindowSeconds, 60);
    assert.equal(settings.idempotencyTtlSeconds, 86_400);
    assert.equal(settings.gracefulShutdownSeconds, 120);
    assert.equal(settings.detachedRunSeconds, null);
    assert.equal(settings.streamBufferBytes, 268_435_456);
    assert.equal(settings.auditFlushSeconds, 5);
    assert.equal(settings.modelTimeoutSeconds, 120);
    assert.equal(settings.defaultManifest, "quick");
    assert.deepEqual(settings.workspaceDeploymentTenants, ["default"]);
    assert.deepEqual(settings.allowedHosts, ["localhost", "127.0.0.1", "[::1]"]);
    assert.equal(settings.objectStorePath, "data/objects");
    assert.deepEqual(settings.fromEnvironment, []);
    assert.deepEqual(settings.unknownNames, []);
    assert.deepEqual(settings.secretValues, []);
  });

  test("an empty or blank variable counts as unset", () => {
    const settings = loadSettings({ SVC_PORT: "", SVC_AUTH_MODE: "  ", SVC_REDIS_URL: "", SVC_AUTH_API_KEYS: "" });

    assert.equal(settings.port, 8080);
    assert.equal(settings.authMode, "none");
    assert.deepEqual(settings.fromEnvironment, []);
  });

  test("every declared default is accepted when it is written out", () => {
    for (const { settings } of settingsSections) {
      for (const setting of Object.values(settings)) {
        const text = Array.isArray(setting.default) ? setting.default.join(",") : String(setting.default ?? "");
        if (text === "" || typeof setting.default === "object") continue;

        assert.deepEqual(setting.read(text), setting.default, setting.name);
      }
    }
  });

  test("a setting's key is its name in camel case, and no name is declared twice", () => {
    const names: string[] = [];
    for (const { settings } of settingsSections) {
      for (const [key, { name }] of Object.entries(settings)) {
        const camel = name
          .slice("SVC_".length)
          .toLowerCase()
          .replace(/_(\w)/g, (_: string, letter: string) => letter.toUpperCase());
        assert.equal(key, renamedKeys[name] ?? camel);
        names.push(name);
      }
    }
    names.push(...unbuiltSettings.map(({ name }) => name));

    assert.deepEqual(names, [...new Set(names)]);
  });
});

/** The specification says fiber where the code says durable run. */
const renamedKeys: Readonly<Record<string, string>> = {
  SVC_FIBER_CONCURRENCY: "durableConcurrency",
  SVC_FIBER_POLL_SECONDS: "durablePollSeconds",
  SVC_FIBER_MAX_ATTEMPTS: "durableMaxAttempts",
  SVC_FIBER_RETENTION_DAYS: "runRetentionDays",
};

describe("values", () => {
  const accepted: [string, string, string, unknown][] = [
    ["SVC_PORT", "0", "port", 0],
    ["SVC_PORT", "65535", "port", 65_535],
    ["SVC_LOG_LEVEL", "WARNING", "logLevel", "warn"],
    ["SVC_LOG_LEVEL", "Debug", "logLevel", "debug"],
    ["SVC_DOCS_PUBLIC", "1", "docsPublic", true],
    ["SVC_DOCS_PUBLIC", "TRUE", "docsPublic", true],
    ["SVC_HSTS_INCLUDE_SUBDOMAINS", "0", "hstsIncludeSubdomains", false],
    ["SVC_DETACHED_RUN_SECONDS", "0", "detachedRunSeconds", 0],
    ["SVC_RATE_LIMIT", "1000000000", "rateLimit", 1_000_000_000],
    ["SVC_AUDIT_FLUSH_SECONDS", "0.25", "auditFlushSeconds", 0.25],
    ["SVC_WORKSPACE_DEPLOYMENT_TENANTS", ",", "workspaceDeploymentTenants", []],
    ["SVC_ALLOWED_TENANTS", " a, b ,,a", "allowedTenants", ["a", "b"]],
    [
      "SVC_ALLOWED_HOSTS",
      "Agents.Example.com,::1,[fe80::1],10.0.0.1",
      "allowedHosts",
      ["agents.example.com", "[::1]", "[fe80::1]", "10.0.0.1"],
    ],
    [
      "SVC_CORS_ORIGINS",
      "https://App.example.com,http://localhost:3000/",
      "corsOrigins",
      ["https://app.example.com", "http://localhost:3000"],
    ],
    ["SVC_TRUSTED_CLIENT_IP_HEADER", "X-Real-IP", "trustedClientIpHeader", "x-real-ip"],
    ["SVC_LITELLM_BASE_URL", "http://localhost:4000/v1/", "litellmBaseUrl", "http://localhost:4000/v1"],
    ["SVC_DATABASE_URL", "sqlite:///tmp/x.db", "databaseUrl", "sqlite:///tmp/x.db"],
    ["SVC_CHAT_SCOPES", "strict", "chatScopes", "strict"],
    ["SVC_DUTIES", "Worker, api,worker", "duties", ["worker", "api"]],
    ["SVC_PROCESS_ROLE", "worker", "duties", ["worker"]],
    ["SVC_PROCESS_ROLE", "cli", "duties", ["api", "worker", "scheduler"]],
  ];
  for (const [name, text, key, value] of accepted) {
    test(`${name}=${text} is accepted`, () => {
      const settings = loadSettings({ [name]: text });

      assert.deepEqual(settings[key as keyof typeof settings], value);
      assert.deepEqual(settings.fromEnvironment, [name]);
    });
  }

  const refused: [string, string, RegExp][] = [
    ["SVC_PORT", "65536", /from 0 to 65535/],
    ["SVC_PORT", "-1", /from 0 to 65535/],
    ["SVC_PORT", "80a", /an integer/],
    ["SVC_PORT", "8080.5", /an integer/],
    ["SVC_PORT", "0x50", /an integer/],
    ["SVC_PORT", "1e3", /an integer/],
    ["SVC_GRACEFUL_SHUTDOWN_SECONDS", "Infinity", /a number/],
    ["SVC_MODEL_TIMEOUT_SECONDS", "0", /from 0.001/],
    ["SVC_DOCS_PUBLIC", "yes", /true, false, 1 or 0/],
    ["SVC_ENVIRONMENT", "prod", /one of development, staging, production/],
    ["SVC_AUTH_MODE", "plugin", /one of none, api_key, jwt/],
    ["SVC_AUTH_MODE", "toString", /one of none, api_key, jwt/],
    ["SVC_LOG_LEVEL", "constructor", /one of/],
    ["SVC_OBJECT_STORE", "disk", /one of fs, s3, gcs, memory/],
    ["SVC_S3_ENDPOINT", "minio:9000", /http or https URL/],
    ["SVC_SECRETS_BACKEND", "aws", /not supported by this version/],
    ["SVC_HOST", "http://localhost", /host name or an IP address/],
    ["SVC_ALLOWED_HOSTS", "*.example.com", /without scheme, port or wildcard/],
    ["SVC_ALLOWED_HOSTS", "example.com:443", /without scheme, port or wildcard/],
    ["SVC_CORS_ORIGINS", "*", /origins such as/],
    ["SVC_CORS_ORIGINS", "https://a.example/path", /origins such as/],
    ["SVC_CORS_ORIGINS", "null", /origins such as/],
    ["SVC_DUTIES", "api,workers", /must list some of api, worker, scheduler/],
    ["SVC_ALLOWED_TENANTS", "a:b", /tenant id/],
    ["SVC_WORKSPACE_DEPLOYMENT_TENANTS", "../../x", /tenant id/],
    ["SVC_DATABASE_URL", "postgres://svc:p@planted/w:rd@db/svc", /^has an @ after its host: percent-encode .*%40/],
    ["SVC_DATABASE_URL", "postgres://svc:p/planted@db/svc", /^has an @ after its host/],
    ["SVC_DATABASE_URL", "postgres://svc:p#planted@db/svc", /^has an @ after its host/],
    ["SVC_DATABASE_URL", "postgres://svc:p?planted@db/svc", /^has an @ after its host/],
    ["SVC_DATABASE_URL", "memory://", /^must begin with postgres:\/\/ or sqlite:\/\/\/$/],
    ["SVC_LITELLM_BASE_URL", "ftp://x", /http or https/],
    ["SVC_LITELLM_BASE_URL", "http://user:pw@localhost", /user name or password/],
    ["SVC_STREAM_BUFFER_BYTES", "10", /from 65536/],
    ["SVC_WORKERS", "0", /from 1/],
  ];
  for (const [name, text, reason] of refused) {
    test(`${name}=${text} is refused`, () => {
      const said = issuesOf({ [name]: text })[name] ?? "";

      assert.match(said, reason);
      assert.doesNotMatch(said, /planted/);
    });
  }

  test("all bad settings are reported at once, without their values", () => {
    const environment = {
      SVC_PORT: "none",
      SVC_AUTH_API_KEYS: '{"planted-secret-key": "planted-secret-value"',
      SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"api_key": "planted-secret-value", "planted-secret-key": 1}}',
      SVC_JWKS_PRIVATE: '{"kty": "planted-secret-value"}',
      SVC_DATABASE_URL: "mysql://root:planted-secret-value@db/x",
      SVC_TRIGGERS: "planted-secret-value",
    };

    assert.throws(
      () => loadSettings(environment),
      (error: unknown) => {
        assert.ok(error instanceof SettingsError);
        assert.deepEqual(error.issues.map(({ name }) => name).sort(), Object.keys(environment).sort());
        assert.doesNotMatch(error.message, /planted-secret/);
        return true;
      },
    );
  });

  test("any text is read or refused with a reason, never with a crash", () => {
    const settings = settingsSections.flatMap((section) => Object.values(section.settings));
    const anyText = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.json(),
      fc.constantFrom("[]", "{}", "null", '""', "0", "-0", "1e999"),
    );

    fc.assert(
      fc.property(fc.constantFrom(...settings), anyText, (setting, text) => {
        if (text.trim() === "") return;
        const { issues, settings: read } = readSettings({ [setting.name]: text });
        assert.ok(issues.length === 0 ? read.fromEnvironment.includes(setting.name) : issues[0]?.reason !== "");
      }),
    );
  });
});

describe("the result", () => {
  const full = loadSettings({
    SVC_AUTH_API_KEYS: '{"key-one-key-one": {"tenant_id": "acme", "sub": "ci", "scopes": ["admin"]}}',
    SVC_MODEL_ROUTES: '{"m": {"provider": "openai", "model": "x", "price": {"input": 1, "output": 2}}}',
    SVC_MODEL_PROVIDER_OPTIONS: '{"openai": {"api_key": "provider-secret", "base_url": "http://127.0.0.1:9/v1/"}}',
    OPENAI_API_KEY: "common-openai-key",
    SVC_GROQ_API_KEY: "own-groq-key",
    GROQ_API_KEY: "common-groq-key",
    SVC_SECRET_DB: "secret-of-db",
    SVC_DATABASE_URL: "postgres://svc:pass%40word@db/svc",
    SVC_TYPO: "x",
    PATH: "/bin",
  });

  test("survives a structured clone unchanged and is frozen to its depth", () => {
    assert.deepEqual(structuredClone(full), full);
    assert.ok(Object.isFrozen(full));
    assert.ok(Object.isFrozen(full.authApiKeys[0]?.scopes));
    assert.ok(Object.isFrozen(full.modelRoutes.m?.price));
  });

  test("keeps API keys as hashes and registers the originals with the mask", () => {
    assert.doesNotMatch(JSON.stringify(full.authApiKeys), /key-one/);
    assert.equal(full.authApiKeys[0]?.tenant_id, "acme");
    for (const value of [
      "key-one-key-one",
      "provider-secret",
      "common-openai-key",
      "own-groq-key",
      "secret-of-db",
      "pass%40word",
      "pass@word",
    ]) {
      assert.ok(full.secretValues.includes(value), value);
    }
  });

  test("lets a server omit the signing key, wherever it is set", () => {
    const key = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
    const settings = loadSettings({ SVC_JWKS_PRIVATE: JSON.stringify(key), OPENAI_API_KEY: "kept-for-the-mask" });
    assert.ok(JSON.stringify(settings).includes(String(key.d)));

    const given = withoutSigningKey(settings);

    assert.ok(!JSON.stringify(given).includes(String(key.d)));
    assert.deepEqual(given, { ...settings, jwksPrivate: null, secretValues: ["kept-for-the-mask"] });
    assert.ok(Object.isFrozen(given.secretValues));
  });

  test("prefers a provider's own name to the common one", () => {
    assert.deepEqual(full.providerApiKeys, { openai: "common-openai-key", groq: "own-groq-key" });
    assert.ok(full.fromEnvironment.includes("OPENAI_API_KEY"));
    assert.ok(full.fromEnvironment.includes("SVC_GROQ_API_KEY"));
    assert.equal(modelProviders.length, 12);
  });

  test("lists misspelt names and only those", () => {
    assert.deepEqual(full.unknownNames, ["SVC_TYPO"]);
  });

  test("fills a price and strips the slash of a base URL", () => {
    assert.deepEqual(full.modelRoutes.m?.price, { input: 1, output: 2, cache_read: 1, cache_write: 1 });
    assert.equal(full.modelProviderOptions.openai?.base_url, "http://127.0.0.1:9/v1");
  });

  test("names the store", () => {
    const { engine } = storeConfigOf(full);

    assert.equal(engine, "postgres");
    assert.equal(storeConfigOf(loadSettings({})).engine, "sqlite");
  });
});

describe("registries in JSON", () => {
  const refused: [string, string, RegExp][] = [
    ["SVC_AUTH_API_KEYS", "[]", /JSON object/],
    ["SVC_AUTH_API_KEYS", '{"k": {"tenant_id": "a", "sub": "b"}}', /entry 1: scopes is missing/],
    ["SVC_AUTH_API_KEYS", '{"k": {"tenant_id": "a", "sub": "b", "scopes": "admin"}}', /list of non-empty strings/],
    ["SVC_AUTH_API_KEYS", '{"k": {"tenant_id": "a", "sub": "b", "scopes": [""]}}', /list of non-empty strings/],
    ["SVC_AUTH_API_KEYS", '{"k": {"tenant_id": "a", "sub": "b", "scopes": ["a b"]}}', /scope is visible ASCII/],
    [
      "SVC_AUTH_API_KEYS",
      '{"k": {"tenant_id": "a", "sub": "b", "scopes": [], "role": "x"}}',
      /other than tenant_id, sub, scopes/,
    ],
    ["SVC_AUTH_API_KEYS", '{"k": {"tenant_id": "a", "sub": "b\\n", "scopes": []}}', /sub has/],
    ["SVC_AUTH_API_KEYS", '{"": {"tenant_id": "a", "sub": "b", "scopes": []}}', /a key is visible ASCII/],
    ["SVC_AUTH_API_KEYS", '{"null": {"tenant_id": "a", "sub": "b", "scopes": []}}', /a key is visible ASCII/],
    ["SVC_AUTH_API_KEYS", '{"a,b": {"tenant_id": "a", "sub": "b", "scopes": []}}', /a key is visible ASCII/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai"}}', /m: model is missing/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": ""}}', /non-empty string/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": "x", "url": "y"}}', /m has a key other than/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": "x", "modalities": ["image"]}}', /modalities are/],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "modalities": ["text", "audio"]}}',
      /modalities are/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "price": {"input": -1, "output": 1}}}',
      /price.input/,
    ],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": "x", "context_window": 10}}', /context_window/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": "x", "context_window": 4096.5}}', /m: context_window/],
    ["SVC_MODEL_ROUTES", '{"m": {"provider": "openai", "model": "x", "max_output_tokens": 0}}', /m: max_output_tokens/],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "max_output_tokens": "4096"}}',
      /m: max_output_tokens must be a whole number/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "parameters": ["top_p"]}}',
      /m: parameters are of/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "parameters": "max_tokens"}}',
      /m: parameters must/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "parameters": ["max_tokens", "max_completion_tokens"]}}',
      /m: parameters has one of/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "kind": "rerank"}}',
      /m: kind is one of chat, emb/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "kind": "embedding", "context_window": 4096}}',
      /m has a key other than provider, model, kind, modalities, price$/,
    ],
    [
      "SVC_MODEL_ROUTES",
      '{"m": {"provider": "openai", "model": "x", "kind": "embedding", "price": {"input": 1, "output": 1}}}',
      /m: price has a key other than input$/,
    ],
    ["SVC_MODEL_ROUTES", '{"a b": {"provider": "openai", "model": "x"}}', /entry 1: an id has/],
    ["SVC_MODEL_ROUTES", '"m"', /JSON object/],
    ["SVC_MODEL_PROVIDER_OPTIONS", '{"openai": {"base_url": "nowhere"}}', /base_url must be an http or https URL/],
    ["SVC_MODEL_PROVIDER_OPTIONS", '{"openai": {"timeout": 0}}', /timeout must be a number/],
    ["SVC_MODEL_PROVIDER_OPTIONS", '{"openai": {"account_id": "x"}}', /key other than base_url, api_key, timeout$/],
    ["SVC_JWKS_PUBLIC", "./public.json", /^is not JSON: it must hold the JSON itself, .* not a file name$/],
    ["SVC_JWKS_PUBLIC", '{"keys": [', /^is not JSON$/],
    ["SVC_JWKS_PUBLIC", '{"keys": []}', /at least one key/],
    ["SVC_JWKS_PUBLIC", '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', /key 1 is secret/],
    [
      "SVC_JWKS_PUBLIC",
      '{"keys": [{"kty": "EC", "crv": "P-384"}]}',
      /no key can verify .* key 1 must be RSA, EC P-256/,
    ],
    ["SVC_JWKS_PUBLIC", '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}', /not a valid key/],
    ["SVC_JWKS_PUBLIC", '{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RS512"}]}', /alg must be RS256/],
  ];
  for (const [name, text, reason] of refused) {
    test(`${name}=${text} is refused`, () => {
      assert.match(issuesOf({ [name]: text })[name] ?? "", reason);
    });
  }

  const signing = (kid?: string) => {
    const key = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
    return kid === undefined ? key : { ...key, kid };
  };
  const skips: [string, object[], readonly RegExp[]][] = [
    ["an encryption key", [{ ...signing("enc"), use: "enc", alg: "RSA-OAEP" }], [/^key 2: use must be sig$/]],
    ["another algorithm", [{ ...signing("es"), alg: "ES512" }], [/^key 2: alg must be EdDSA$/]],
    ["another key type", [{ kty: "AKP", kid: "pq" }], [/^key 2 must be RSA/]],
    ["a key without kid beside others", [signing()], [/^key 2 needs a kid/]],
    ["a repeated kid", [signing("one")], [/^key 2 has the kid of another key$/]],
    ["two of them", [{ kty: "AKP" }, { kty: "OKP", crv: "Ed25519", x: "AA" }], [/^key 2 must be/, /^key 3 is not a/]],
  ];
  for (const [name, others, reasons] of skips) {
    test(`SVC_JWKS_PUBLIC skips ${name} and keeps the usable key`, () => {
      const usable = signing("one");
      const { jwksPublic } = loadSettings({ SVC_JWKS_PUBLIC: JSON.stringify({ keys: [usable, ...others] }) });

      assert.deepEqual(jwksPublic?.keys, [usable]);
      assert.equal(jwksPublic?.skipped.length, reasons.length);
      for (const [index, reason] of reasons.entries()) assert.match(jwksPublic?.skipped[index] ?? "", reason);
    });
  }

  test("SVC_JWKS_PUBLIC refuses a private key next to a usable one", () => {
    const secret = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });

    const keys = JSON.stringify({ keys: [signing("one"), { ...secret, kid: "two" }] });

    assert.match(issuesOf({ SVC_JWKS_PUBLIC: keys }).SVC_JWKS_PUBLIC ?? "", /^key 2 is secret/);
  });

  for (const tenant of [
    "a:b",
    "a#b",
    "a/b",
    "a\\b",
    "a\u0000b",
    "a\u200bb",
    "a b",
    ".",
    "..",
    "*",
    "",
    "x".repeat(129),
  ]) {
    test(`a key of tenant ${JSON.stringify(tenant.slice(0, 20))} is refused`, () => {
      const text = JSON.stringify({ k: { tenant_id: tenant, sub: "b", scopes: [] } });

      assert.match(issuesOf({ SVC_AUTH_API_KEYS: text }).SVC_AUTH_API_KEYS ?? "", /tenant/);
    });
  }
});

describe("settings without behaviour", () => {
  test("each is accepted at its default and refused by name at any other value", () => {
    for (const setting of unbuiltSettings) {
      assert.deepEqual(issuesOf({ [setting.name]: setting.default }), {}, setting.name);

      const reason = issuesOf({ [setting.name]: "something-else" })[setting.name];
      assert.match(reason ?? "", /not supported by this version/, setting.name);
    }
  });

  test("another spelling of the default is the default", () => {
    assert.deepEqual(
      issuesOf({ SVC_FIBER_POLL_SECONDS: "1.0", SVC_OTEL_ENABLED: "0", SVC_MEMORY_EMBEDDER: "none" }),
      {},
    );
  });

  test("those that the specification names and this version lacks are all known", () => {
    const { unknownNames } = readSettings(
      Object.fromEntries(
        [
          "SVC_REDIS_URL SVC_TRIGGERS SVC_WEBHOOK_ENDPOINTS SVC_WEBHOOK_TIMEOUT_SECONDS SVC_WEBHOOK_MAX_ATTEMPTS",
          "SVC_SKILL_UPDATE_WEBHOOKS SVC_EGRESS_CREDENTIALS SVC_CHANNELS SVC_CONSUMER_SHARED_SECRET SVC_LEASE_ENFORCE",
          "SVC_HIBERNATE_AFTER_SECONDS SVC_FIBER_POLL_SECONDS SVC_FIBER_CONCURRENCY SVC_FIBER_MAX_ATTEMPTS SVC_DURABILITY",
          "SVC_PUSH_VAPID_PRIVATE_KEY SVC_PUSH_VAPID_SUBJECT SVC_PUSH_ALLOWED_HOSTS SVC_MEMORY_EMBEDDER",
          "SVC_MEMORY_EMBEDDING_MODEL SVC_MEMORY_EMBEDDING_DIM SVC_ARTIFACT_RETENTION_DAYS SVC_DECISION_ROUTES",
          "SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT SVC_SKILL_IMPORT_CALLS_PER_HOUR SVC_SKILL_IMPORT_CALLS_PER_HOUR_TOTAL",
          "SVC_SKILL_IMPORT_MIN_AGE_DAYS SVC_SKILL_IMPORT_CHECK_HOURS SVC_SKILL_JOBS_MAX_QUEUED SVC_SKILL_JOBS_DAILY_LIMIT",
          "SVC_SKILL_PUBLISH_MIN_QUALITY SVC_SKILL_PUBLISH_BLOCK_ON_ADVISORY SVC_SKILL_PUBLISH_REQUIRE_EVAL",
          "SVC_SKILL_PUBLISH_MIN_EVAL_UPLIFT SVC_SKILL_EVAL_MAX_SCENARIOS SVC_SKILL_EVAL_MAX_TOKENS",
          "SVC_SKILL_IMPROVE_MAX_TOKENS SVC_SKILL_JOB_DEADLINE_SECONDS SVC_GITHUB_OIDC_AUDIENCE",
          "SVC_DEFAULT_VISION_MODEL_ID SVC_MCP_STDIO_ALLOWED_COMMANDS SVC_SHELL_ALLOWED_COMMANDS",
          "SVC_SANDBOX_ALLOWED_IMAGES",
        ]
          .join(" ")
          .split(" ")
          .map((name) => [name, "x"]),
      ),
    ).settings;

    assert.deepEqual(unknownNames, []);
  });
});

test("loopback is every spelling of a loopback address, and nothing else", () => {
  for (const host of ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST"]) assert.ok(isLoopback(host), host);
  for (const host of [
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "127.1",
    "localhost.example.com",
    "::ffff:10.0.0.1",
    "example.com",
  ]) {
    assert.ok(!isLoopback(host), host);
  }
});

test("hosts of a deployment have no folder of their own for the git data of repositories", () => {
  const cluster = {
    SVC_DATABASE_URL: "postgres://db/svc",
    SVC_REDIS_URL: "redis://redis",
    SVC_CLUSTER_KEY: "k".repeat(32),
    SVC_DATA_DIR: "/data",
  };

  assert.equal(loadSettings({ SVC_DATA_DIR: "/data" }).repoCheckoutRoot, "/data/checkouts");
  assert.equal(loadSettings(cluster).repoCheckoutRoot, null);
  assert.equal(loadSettings({ ...cluster, SVC_REPO_CHECKOUT_ROOT: "/shared" }).repoCheckoutRoot, "/shared");
});
