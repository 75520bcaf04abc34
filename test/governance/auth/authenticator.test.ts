import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { createAuthenticator } from "../../../governance/auth/authenticator.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { authenticate, tenantOf } from "./support.ts";

const keys = JSON.stringify({
  "alice-key-0123456789": { tenant_id: "acme", sub: "alice", scopes: ["chat:write"] },
  "bob-key-0123456789": { tenant_id: "other", sub: "bob", scopes: [] },
});
const byKey = createAuthenticator(loadSettings({ SVC_AUTH_MODE: "api_key", SVC_AUTH_API_KEYS: keys }), systemEnv());
const open = createAuthenticator(loadSettings({}), systemEnv());

function headers(authorization?: string, x_api_key?: string) {
  return { authorization, x_api_key };
}

describe("mode api_key", () => {
  test("knows the caller at once, by each of the three headers", () => {
    const alice = { tenant_id: "acme", sub: "alice", scopes: ["chat:write"], scheme: "api_key", issuer: "" };
    for (const shown of [
      headers("Bearer alice-key-0123456789"),
      headers("ApiKey alice-key-0123456789"),
      headers("APIKEY alice-key-0123456789"),
      headers(undefined, "alice-key-0123456789"),
      headers("Bearer alice-key-0123456789", "alice-key-0123456789"),
    ]) {
      assert.deepEqual(authenticate(byKey, shown), alice);
      assert.equal(tenantOf(byKey, shown), "acme");
    }
  });

  const refused: [string, ReturnType<typeof headers>, string][] = [
    ["nothing", headers(), "missing_credentials"],
    ["empty headers", headers("", ""), "missing_credentials"],
    ["a scheme alone", headers("Bearer"), "missing_credentials"],
    ["an unknown key", headers("Bearer alice-key-012345678"), "invalid_api_key"],
    ["a key in other letters", headers("Bearer ALICE-key-0123456789"), "invalid_api_key"],
    ["the hash of a key", headers(undefined, loadedHash()), "invalid_api_key"],
    ["a name that every object has", headers("Bearer constructor"), "invalid_api_key"],
    ["__proto__", headers("Bearer __proto__"), "invalid_api_key"],
    ["basic credentials", headers("Basic YWxpY2U6eA=="), "invalid_api_key"],
    ["two callers", headers("Bearer alice-key-0123456789", "bob-key-0123456789"), "invalid_api_key"],
    ["a good key and a bad one", headers("Bearer alice-key-0123456789", "x"), "invalid_api_key"],
    ["two headers joined", headers("Bearer alice-key-0123456789, Bearer bob-key-0123456789"), "invalid_api_key"],
    ["null", headers("Bearer null"), "invalid_api_key"],
    ["undefined", headers(undefined, "undefined"), "invalid_api_key"],
    ["an array", headers('Bearer ["alice-key-0123456789"]'), "invalid_api_key"],
    ["an object", headers("Bearer [object Object]"), "invalid_api_key"],
  ];
  for (const [name, shown, reason] of refused) {
    test(`threat 8: ${name} is 401 ${reason}`, () => {
      assert.throws(() => authenticate(byKey, shown), { code: "unauthorized", status: 401, details: { reason } });
      assert.equal(tenantOf(byKey, shown), null);
    });
  }

  test("without keys knows no caller", () => {
    const empty = createAuthenticator(loadSettings({ SVC_AUTH_MODE: "api_key" }), systemEnv());

    assert.throws(() => authenticate(empty, headers("Bearer x")), { details: { reason: "invalid_api_key" } });
  });
});

describe("mode none", () => {
  test("takes every caller for the local one, whatever the headers claim", () => {
    for (const shown of [headers(), headers("Bearer x"), headers("Basic a, Basic b", "null")]) {
      assert.deepEqual(authenticate(open, shown), {
        tenant_id: "default",
        sub: "local",
        scopes: ["*"],
        scheme: "none",
        issuer: "",
      });
      assert.equal(tenantOf(open, shown), "default");
    }
  });
});

function loadedHash(): string {
  return loadSettings({ SVC_AUTH_API_KEYS: keys }).authApiKeys[0]?.sha256 ?? "";
}
