// Requirements about the caller's identity that code below HTTP decides.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { createAuthenticator } from "../../governance/auth/authenticator.ts";
import { admit } from "../../governance/auth/inbound.ts";
import { missingScopes, requireChat, requireScopes } from "../../governance/auth/scopes.ts";
import { bootRefusals } from "../../governance/settings/boot-refusals.ts";
import { type Environment, loadSettings } from "../../governance/settings/settings.ts";
import { SettingsError } from "../../governance/settings/settings-error.ts";
import {
  authenticate,
  bearer,
  claims,
  clockEnv,
  jwtAuthenticator,
  type KeyPair,
  keyPair,
  now,
  sign,
} from "../governance/auth/support.ts";

const keys: Environment = {
  SVC_AUTH_MODE: "api_key",
  SVC_AUTH_API_KEYS: JSON.stringify({
    "first-key-0123456789": { tenant_id: "acme", sub: "ci", scopes: ["plans:write"] },
    "second-key-0123456789": { tenant_id: "globex", sub: "metrics", scopes: [] },
  }),
};

function authenticator(environment: Environment) {
  return createAuthenticator(loadSettings(environment), systemEnv());
}

function caller(scheme: string, ...scopes: string[]): Principal {
  return { tenant_id: "acme", sub: "alice", scopes, scheme, issuer: "" };
}

const anybody = { schemes: [], required_scopes: [], allow_anonymous: false };

describe("modes and credentials", () => {
  let pair: KeyPair;
  before(async () => {
    pair = await keyPair("RS256", "one");
  });

  test("AUTH-003 SVC_AUTH_MODE is none, api_key or jwt, and nothing else", () => {
    for (const mode of ["none", "api_key", "jwt"]) {
      assert.equal(loadSettings({ SVC_AUTH_MODE: mode }).authMode, mode);
    }
    for (const mode of ["plugin", "basic", "NONE ,"]) {
      assert.throws(() => loadSettings({ SVC_AUTH_MODE: mode }), SettingsError);
    }
  });

  test("AUTH-003 mode none starts only on loopback and outside production", () => {
    assert.deepEqual(bootRefusals(loadSettings({ SVC_AUTH_MODE: "none" })), []);
    assert.equal(bootRefusals(loadSettings({ SVC_AUTH_MODE: "none", SVC_HOST: "0.0.0.0" })).length, 1);
    assert.equal(bootRefusals(loadSettings({ SVC_AUTH_MODE: "none", SVC_ENVIRONMENT: "production" })).length, 1);
  });

  test("AUTH-004 Authorization: Bearer is accepted in api_key and jwt mode", async () => {
    const token = await sign(pair, claims);

    assert.equal((await authenticate(authenticator(keys), bearer("first-key-0123456789"))).sub, "ci");
    assert.equal((await authenticate(jwtAuthenticator(clockEnv(), [pair]), bearer(token))).sub, "alice");
  });

  test("AUTH-005 api_key mode also accepts Authorization: ApiKey and X-Api-Key", async () => {
    const key = "first-key-0123456789";
    for (const headers of [
      { authorization: `ApiKey ${key}`, x_api_key: undefined },
      { authorization: undefined, x_api_key: key },
    ]) {
      assert.equal((await authenticate(authenticator(keys), headers)).tenant_id, "acme");
    }
  });

  test("AUTH-007 no credentials are 401 missing_credentials, bad ones 401 invalid_api_key", () => {
    const none = { authorization: undefined, x_api_key: undefined };

    assert.throws(() => authenticate(authenticator(keys), none), {
      code: "unauthorized",
      status: 401,
      details: { reason: "missing_credentials" },
    });
    assert.throws(() => authenticate(authenticator(keys), bearer("wrong")), {
      status: 401,
      details: { reason: "invalid_api_key" },
    });
  });

  test("AUTH-029 SVC_AUTH_API_KEYS maps keys to tenant, subject and scopes, or stops the start", () => {
    assert.deepEqual(authenticate(authenticator(keys), bearer("second-key-0123456789")), {
      tenant_id: "globex",
      sub: "metrics",
      scopes: [],
      scheme: "api_key",
      issuer: "",
    });
    for (const text of ["{", "[]", '{"k": {}}', '{"k": {"tenant_id": "a", "sub": "b", "scopes": [], "x": 1}}']) {
      assert.throws(() => loadSettings({ SVC_AUTH_API_KEYS: text }), /SVC_AUTH_API_KEYS/);
    }
  });

  test("AUTH-035 jwt mode accepts a token signed by SVC_JWKS_PUBLIC; others and expired are 401", async () => {
    const verifier = jwtAuthenticator(clockEnv(), [pair]);
    const stranger = await keyPair("RS256", "one");

    assert.equal((await authenticate(verifier, bearer(await sign(pair, claims)))).tenant_id, "acme");
    for (const bad of [await sign(stranger, claims), await sign(pair, { ...claims, exp: now - 61 })]) {
      await assert.rejects(async () => authenticate(verifier, bearer(bad)), { status: 401 });
    }
  });

  test("AUTH-036 keys stay as they were at the start", () => {
    const environment: Record<string, string | undefined> = { ...keys };
    const running = authenticator(environment);

    environment.SVC_AUTH_API_KEYS = "{}";

    assert.ok(authenticate(running, bearer("first-key-0123456789")));
    assert.throws(() => authenticate(authenticator(environment), bearer("first-key-0123456789")), { status: 401 });
  });
});

describe("scopes", () => {
  test("AUTH-024 skills:personal is implied by admin and * only", () => {
    assert.deepEqual(missingScopes(caller("jwt", "skills:write", "skills:read"), ["skills:personal"]), [
      "skills:personal",
    ]);
    for (const scope of ["skills:personal", "admin", "*"]) {
      assert.deepEqual(missingScopes(caller("jwt", scope), ["skills:personal"]), []);
    }
  });

  test("AUTH-025 admin and * bypass every scope check", () => {
    for (const scope of ["admin", "*"]) {
      assert.doesNotThrow(() => requireScopes(caller("jwt", scope), ["audit:read", "plans:write", "anything"]));
      assert.doesNotThrow(() => requireChat(caller("jwt", scope), "strict", "write"));
    }
  });

  test("AUTH-026 x:write satisfies x:read, and not the other way round", () => {
    assert.deepEqual(missingScopes(caller("jwt", "plans:write"), ["plans:read"]), []);
    assert.deepEqual(missingScopes(caller("jwt", "plans:read"), ["plans:write"]), ["plans:write"]);
  });

  test("AUTH-027 with SVC_AUTH_MODE none scope checks are skipped", () => {
    const principal = authenticate(authenticator({}), { authorization: undefined, x_api_key: undefined }) as Principal;

    assert.doesNotThrow(() => requireScopes(principal, ["manifests:write", "anything"]));
    assert.doesNotThrow(() => requireChat({ ...principal, scopes: [] }, "strict", "write"));
  });

  test("AUTH-028 a missing scope is 403 with the missing ones in detail", () => {
    assert.throws(() => requireScopes(caller("jwt", "b:write"), ["a:read", "b:write", "c:write"]), {
      status: 403,
      details: { detail: "missing scopes: a:read c:write" },
    });
  });
});

describe("spec.auth.inbound", () => {
  test("AUTH-008 a manifest can require scopes, schemes and credentials: 403, 403 and 401", () => {
    const scoped = { ...anybody, required_scopes: ["chat:write"] };
    const schemed = { ...anybody, schemes: ["jwt"] };

    assert.throws(() => admit(caller("api_key"), scoped), { status: 403 });
    assert.throws(() => admit(caller("api_key"), schemed), { status: 403 });
    assert.throws(() => admit(caller("anonymous"), anybody), { status: 401 });
  });

  test("AUTH-030 schemes are enforced, and jwt covers every JWT scheme", () => {
    const jwtOnly = { ...anybody, schemes: ["jwt"] };

    assert.throws(() => admit(caller("api_key", "admin"), jwtOnly), { code: "auth_scheme_not_allowed", status: 403 });
    for (const scheme of ["jwt", "github", "github_actions", "google"]) {
      assert.doesNotThrow(() => admit(caller(scheme), jwtOnly));
    }
  });

  test("AUTH-032 a caller without one of required_scopes is 403", () => {
    const scoped = { ...anybody, required_scopes: ["chat:write", "calc:use"] };

    assert.throws(() => admit(caller("jwt", "chat:write"), scoped), {
      status: 403,
      details: { detail: "missing scopes: calc:use" },
    });
    assert.doesNotThrow(() => admit(caller("jwt", "chat:write", "calc:use"), scoped));
  });

  test("AUTH-033 anonymous callers get 401 unless allow_anonymous is true", () => {
    assert.throws(() => admit(caller("anonymous"), anybody), { code: "unauthorized", status: 401 });
    assert.doesNotThrow(() => admit(caller("anonymous"), { ...anybody, allow_anonymous: true }));
  });
});
