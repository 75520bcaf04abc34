// Requirements about settings that are decided when the environment is read.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { bootRefusals } from "../../governance/settings/boot-refusals.ts";
import { type Environment, loadSettings, readSettings } from "../../governance/settings/settings.ts";
import { storeConfigOf } from "../../governance/settings/store-config.ts";

function refusedNames(environment: Environment): string[] {
  return readSettings(environment).issues.map(({ name }) => name);
}

test("SET-001 SVC_DURABILITY=temporal stops the start, because fibers are the only backend", () => {
  assert.throws(
    () => loadSettings({ SVC_DURABILITY: "temporal" }),
    /SVC_DURABILITY .*fibers are the only durable backend/,
  );
  assert.deepEqual(refusedNames({ SVC_DURABILITY: "fibers" }), []);
});

test("SET-002 a registry that is malformed or has an unknown key stops the start", () => {
  const registries: Record<string, string[]> = {
    SVC_AUTH_API_KEYS: ["{", "7", '{"k": {"tenant_id": "a", "sub": "b", "scopes": [], "extra": 1}}'],
    SVC_MODEL_ROUTES: ["{", "7", '{"m": {"provider": "openai", "model": "x", "extra": 1}}'],
    SVC_MODEL_PROVIDER_OPTIONS: ["{", "7", '{"openai": {"extra": 1}}'],
    SVC_JWKS_PUBLIC: ["{", "7", '{"keys": [{}]}'],
    SVC_WEBHOOK_ENDPOINTS: [
      "{",
      "7",
      '{"ops": {"url": "https://x.example", "secret": "s", "tenants": "*", "hunter2": true}}',
    ],
    SVC_GITHUB_ORGS: [
      "{",
      "7",
      '{"acme": {"tenant": "a", "scopes": []}}',
      '{"acme": {"id": 1, "tenant": "a", "scopes": [], "extra": 1}}',
      '{"acme": {"id": 1, "tenant": "a", "scopes": [], "teams": [{"id": 1, "extra": 1}]}}',
      '{"acme": {"id": 1, "tenant": "a", "scopes": [], "actions": [{"scopes": [], "workflow": "x"}]}}',
    ],
    SVC_GITHUB_INVITES: ["{", "7", '{"ann": {"tenant": "a", "scopes": []}}'],
    SVC_GOOGLE_ACCOUNTS: ["{", "7", '{"ann": {"tenant": "a", "scopes": []}}'],
    SVC_GITHUB_ACTIONS_GRANTS: [
      "{",
      "7",
      '[{"tenant": "a", "scopes": []}]',
      '[{"repository_id": 1, "repository": "acme/app", "tenant": "a", "scopes": []}]',
      '[{"repository_id": 1, "workflow": "x", "tenant": "a", "scopes": []}]',
    ],
  };
  for (const [name, texts] of Object.entries(registries)) {
    for (const text of texts) assert.deepEqual(refusedNames({ [name]: text }), [name], text);
  }
});

test("SET-002 older names of the settings of sign-in are refused with the names to use", () => {
  const successors = {
    SVC_GITHUB_ORG_TENANTS: /SVC_GITHUB_ORGS/,
    SVC_GITHUB_SIGNUP_LOGINS: /SVC_GITHUB_INVITES/,
    SVC_GITHUB_TOKEN_KEY: /SVC_TOKEN_SIGNING_KEY/,
    SVC_GITHUB_REDIRECT_ORIGINS: /SVC_LOGIN_RETURN_ORIGINS/,
    SVC_GITHUB_LOGIN_TTL_SECONDS: /SVC_TOKEN_TTL_SECONDS/,
  };
  for (const [name, successor] of Object.entries(successors))
    assert.match(JSON.stringify(readSettings({ [name]: "60" }).issues), successor, name);
  const { tokenTtlSeconds, githubOidcTtlSeconds, githubTimeoutSeconds } = loadSettings({});
  assert.deepEqual([tokenTtlSeconds, githubOidcTtlSeconds, githubTimeoutSeconds], [3_600, 900, 10]);
});

test("SET-003 SET-005 SVC_WEBHOOK_ENDPOINTS maps ids to endpoints, and each needs tenants", () => {
  const ops = { url: "https://x.example/hook", secret: "a plain one", tenants: ["acme"] };
  const entries = [ops, { ...ops, tenants: "*", private: true }, { ...ops, secret: ["whsec_c2VjcmV0", "secret:OPS"] }];

  for (const entry of entries) {
    const text = JSON.stringify({ ops: entry });
    assert.deepEqual(refusedNames({ SVC_WEBHOOK_ENDPOINTS: text }), [], text);
  }
  for (const key of ["url", "secret", "tenants"]) {
    const text = JSON.stringify({ ops: { ...ops, [key]: undefined } });
    assert.deepEqual(refusedNames({ SVC_WEBHOOK_ENDPOINTS: text }), ["SVC_WEBHOOK_ENDPOINTS"], text);
  }
});

test("HOOK-011 SVC_WEBHOOK_TIMEOUT_SECONDS is 10 by default and at most 60, MAX_ATTEMPTS is 8", () => {
  const { webhookTimeoutSeconds, webhookMaxAttempts } = loadSettings({});

  assert.deepEqual([webhookTimeoutSeconds, webhookMaxAttempts], [10, 8]);
  assert.equal(loadSettings({ SVC_WEBHOOK_TIMEOUT_SECONDS: "60" }).webhookTimeoutSeconds, 60);
  for (const text of ["61", "0", "-1", "x"])
    assert.deepEqual(refusedNames({ SVC_WEBHOOK_TIMEOUT_SECONDS: text }), ["SVC_WEBHOOK_TIMEOUT_SECONDS"], text);
});

test("SET-002 a registry of behaviour that this version lacks stops the start", () => {
  for (const name of ["SVC_TRIGGERS", "SVC_EGRESS_CREDENTIALS", "SVC_CHANNELS"]) {
    for (const text of ["{", '{"a": {}}']) assert.deepEqual(refusedNames({ [name]: text }), [name]);
  }
});

test("LIM-007 the database pool has 10 connections and 20 more, waits 30 s and tests each", () => {
  const settings = loadSettings({ SVC_DATABASE_URL: "postgres://db/svc" });
  const changed = loadSettings({
    SVC_DATABASE_URL: "postgres://db/svc",
    SVC_DB_POOL_SIZE: "1",
    SVC_DB_MAX_OVERFLOW: "0",
    SVC_DB_POOL_TIMEOUT_SECONDS: "2",
    SVC_DB_POOL_PRE_PING: "false",
  });

  const pool = { poolSize: 10, maxOverflow: 20, poolTimeoutSeconds: 30, prePing: true };
  assert.deepEqual(storeConfigOf(settings), {
    engine: "postgres",
    postgres: { url: "postgres://db/svc", ...pool, connectTimeoutSeconds: 10, preparedStatements: true, shared: false },
  });
  const smaller = { poolSize: 1, maxOverflow: 0, poolTimeoutSeconds: 2, prePing: false };
  assert.deepEqual(storeConfigOf(changed), {
    engine: "postgres",
    postgres: {
      url: "postgres://db/svc",
      ...smaller,
      connectTimeoutSeconds: 10,
      preparedStatements: true,
      shared: false,
    },
  });
});

test("LIM-008 SVC_DB_PREPARED_STATEMENTS is true by default and reaches the store when false", () => {
  const config = storeConfigOf(
    loadSettings({ SVC_DATABASE_URL: "postgres://db/svc", SVC_DB_PREPARED_STATEMENTS: "false" }),
  );

  assert.equal(loadSettings({}).dbPreparedStatements, true);
  assert.equal(config.engine === "postgres" && config.postgres.preparedStatements, false);
});

test("LIM-009 SVC_WORKERS is 1 by default, and more need a deployment", () => {
  assert.equal(loadSettings({}).workers, 1);
  assert.match(bootRefusals(loadSettings({ SVC_WORKERS: "2" })).join(), /SVC_WORKERS/);
});

test("ERR-007 a secret:NAME that resolves to nothing is 503 with its name", async () => {
  const secrets = new Secrets(loadSettings({}), new SecretMask([]));

  await assert.rejects(secrets.resolve("secret:NOWHERE"), {
    code: "unresolved_secret",
    status: 503,
    message: "unresolved_secret:NOWHERE",
  });
});
