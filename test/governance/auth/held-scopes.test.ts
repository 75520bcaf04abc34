import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { type AccessDeps, withHeldScopes as withHeldScopesAt } from "../../../governance/auth/held-scopes.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { signedIn, signInEntries } from "./support.ts";

const alice: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };
const cron: Principal = {
  ...alice,
  ...{ sub: "cron", scheme: "cron" },
  on_behalf_of: { sub: "alice", scheme: "api_key", issuer: "" },
};
const deploys: Principal = { ...alice, sub: "trigger:deploys", scheme: "trigger" };

/** The same with the sign-ins of the tests. */
function withHeldScopes(who: Principal, given: AccessDeps["settings"], access = signedIn, now = 0): Principal {
  return withHeldScopesAt(who, { settings: given, access }, now);
}

/** Alice's keys with these scopes, keys of other callers, and a trigger. */
function settings(...ofAlice: readonly (readonly string[])[]) {
  const key = { entry: 1, length: 20, sha256: "0".repeat(64), tenant_id: "acme", sub: "alice" };
  return {
    ...signInEntries,
    allowedTenants: [],
    authMode: "api_key" as Settings["authMode"],
    authApiKeys: [
      ...ofAlice.map((scopes) => ({ ...key, scopes })),
      { ...key, sub: "bob", scopes: ["*"] },
      { ...key, tenant_id: "globex", scopes: ["*"] },
    ],
    triggers: [
      { id: "deploys", tenant_id: "acme", scopes: ["deploy:write"] },
      { id: "deploys", tenant_id: "globex", scopes: ["*"] },
    ] as unknown as Settings["triggers"],
  };
}

test("recorded scopes are cut to those that the keys of the same tenant and name grant", () => {
  for (const [recorded, held, expected] of [
    [
      ["a:write", "b:write"],
      [["a:write"], ["b:write", "c:write"]],
      ["a:write", "b:write"],
    ],
    [["a:write", "b:write"], [["a:write"]], ["a:write"]],
    [["a:write"], [["a:read"]], ["a:read"]],
    [["a:read"], [["a:write"]], ["a:read"]],
    [["*"], [["a:write"]], ["a:write"]],
    [["admin"], [["a:write", "b:read"]], ["a:write", "b:read"]],
    [["a:write"], [["*"]], ["a:write"]],
    [["a:write"], [], []],
  ] as const)
    for (const who of [alice, cron])
      assert.deepEqual(
        withHeldScopes({ ...who, scopes: recorded }, settings(...held)).scopes,
        expected,
        JSON.stringify([who.sub, recorded, held]),
      );
});

test("a trigger's recorded scopes are cut to those of its entry", () => {
  const scopes = ["deploy:write", "chat:write"];

  assert.deepEqual(withHeldScopes({ ...deploys, scopes }, settings()).scopes, ["deploy:write"]);
  assert.deepEqual(withHeldScopes({ ...deploys, sub: "trigger:gone", scopes }, settings()).scopes, []);
});

test("scopes of schemes without a configured key stay as recorded", () => {
  const scopes = ["a:write"];

  for (const scheme of ["jwt", "none"])
    assert.deepEqual(withHeldScopes({ ...alice, scheme, scopes }, settings()).scopes, scopes, scheme);
  assert.deepEqual(withHeldScopes({ ...alice, scopes }, { ...settings(), authMode: "jwt" }).scopes, scopes);
});

test("a signed-in principal keeps what the entries of its tenant still grant to its scheme", () => {
  for (const [scheme, sub, tenant_id, recorded, expected] of [
    ["github", "github:1", "acme", ["a:write", "b:write", "gone:write"], ["a:write", "b:write"]],
    ["github", "github:1", "acme", ["team:write"], ["team:write"]],
    ["github", "github:1", "globex", ["a:write"], []],
    ["github", "github:4", "guests", ["c:write", "a:write"], ["c:write"]],
    ["github", "github:5", "guests", ["c:write"], []],
    ["google", "google:1", "acme", ["d:write", "a:write"], ["d:write"]],
    ["github_actions", "github_actions:11", "acme", ["e:write", "a:write"], ["e:write"]],
    ["github_actions", "github_actions:12", "acme", ["e:write"], []],
  ] as const) {
    const who = { tenant_id, sub, scheme, scopes: recorded, issuer: "https://svc.example.com" };
    assert.deepEqual(withHeldScopes(who, settings()).scopes, expected, JSON.stringify(who));
    assert.deepEqual(
      withHeldScopes({ ...cron, tenant_id, scopes: recorded, on_behalf_of: who }, settings()).scopes,
      expected,
    );
  }
});

test("a key that is made at run time counts beside those of the settings", () => {
  const key = { scopes: ["k:write"], owner: { sub: "root", scheme: "api_key" } } as unknown as ReturnType<
    AccessDeps["access"]["keysOf"]
  >[number];
  const access = { ...signedIn, keysOf: (_: string, sub: string) => (sub === "alice" ? [key] : []) };
  const scopes = ["k:write", "a:write", "b:write"];

  assert.deepEqual(withHeldScopes({ ...alice, scopes }, settings(["a:write"]), access).scopes, ["k:write", "a:write"]);
  assert.deepEqual(withHeldScopes({ ...cron, scopes }, settings(), access).scopes, ["k:write"]);
});

test("a key of a signed-in person grants at most what the person's entries grant", () => {
  const key = { scopes: ["a:write", "k:write"], owner: { sub: "github:1", scheme: "github" } } as unknown as ReturnType<
    AccessDeps["access"]["keysOf"]
  >[number];
  const access = { ...signedIn, keysOf: () => [key] };
  const who = { ...alice, sub: "key:1", scopes: ["a:write", "k:write"] };
  const left = { ...settings(), githubOrgs: [] };

  assert.deepEqual(withHeldScopes(who, settings(), access).scopes, ["a:write"]);
  assert.deepEqual(withHeldScopes(who, left, access).scopes, []);
});

test("an entry that did not admit the principal grants nothing", () => {
  const access = { ...signedIn, signInOf: () => ({ sub: "github:1", entries: ["org:2"], scopes: [], at: 0 }) };
  const who = { ...alice, scheme: "github", sub: "github:1", scopes: ["a:write", "b:write"] };

  assert.deepEqual(withHeldScopes(who, settings(), access).scopes, ["b:write"]);
});
