import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { AccessDeps } from "../../../governance/auth/held-scopes.ts";
import { isRevoked as isRevokedAt } from "../../../governance/auth/revoked.ts";
import { signedIn, signInEntries } from "./support.ts";

const alice: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };
const key = { entry: 1, length: 20, sha256: "0".repeat(64), tenant_id: "acme", sub: "alice", scopes: [] };
const settings = {
  ...signInEntries,
  authMode: "api_key",
  authApiKeys: [key],
  allowedTenants: [] as string[],
  triggers: [],
} as const;

function isRevoked(who: Principal, given: AccessDeps["settings"], access = signedIn, now = 0): boolean {
  return isRevokedAt(who, { settings: given, access }, now);
}

test("a principal is revoked when no key has its tenant and name", () => {
  for (const [who, expected] of [
    [alice, false],
    [{ ...alice, sub: "bob" }, true],
    [{ ...alice, tenant_id: "globex" }, true],
    [{ ...alice, scheme: "none", sub: "local" }, false],
  ] as const)
    assert.equal(isRevoked(who, settings), expected, JSON.stringify(who));
});

test("a run on behalf of a principal is checked for that principal", () => {
  const cron: Principal = { ...alice, sub: "cron", scheme: "cron" };
  const { sub, scheme, issuer } = alice;

  for (const [who, expected] of [
    [{ ...cron, on_behalf_of: { sub, scheme, issuer } }, false],
    [{ ...cron, on_behalf_of: { sub: "bob", scheme, issuer } }, true],
    [{ ...alice, on_behalf_of: { sub: "bob", scheme, issuer } }, true],
    [{ ...alice, sub: "bob", on_behalf_of: { sub, scheme: "none", issuer } }, false],
  ] as const)
    assert.equal(isRevoked(who, settings), expected, JSON.stringify(who));
});

test("a principal whose tenant is blocked is revoked, whatever its credential", () => {
  const others = { ...settings, allowedTenants: ["globex"] };

  assert.equal(isRevoked(alice, others), true);
  assert.equal(isRevoked({ ...alice, scheme: "jwt" }, others), true);
  assert.equal(isRevoked({ ...alice, scheme: "jwt" }, { ...settings, allowedTenants: ["acme"] }), false);
});

test("a signed-in principal is revoked when its provider is off, or no entry of its tenant is left", () => {
  const off = { githubClientId: "", googleClientId: "", githubOidcAudience: "" };
  const noEntry = { githubOrgs: [], githubInvites: [], googleAccounts: [], githubActionsGrants: [] };
  for (const [scheme, sub, tenant_id, changes, expected] of [
    ["github", "github:1", "acme", {}, false],
    ["github", "github:1", "globex", {}, true],
    ["github", "github:1", "acme", off, true],
    ["github", "github:1", "acme", noEntry, true],
    ["github", "github:1", "acme", { githubDevice: false }, true],
    ["github", "github:1", "acme", { githubDevice: false, githubClientSecret: "s" }, false],
    ["github", "github:1", "acme", { authMode: "jwt" }, false],
    ["github", "github:1", "acme", { authMode: "none" }, true],
    ["github", "github:4", "guests", {}, false],
    ["github", "github:5", "guests", {}, true],
    ["github", "github:4", "guests", { githubSignup: "off" }, true],
    ["google", "google:1", "acme", {}, false],
    ["google", "google:1", "globex", {}, true],
    ["google", "google:1", "acme", off, true],
    ["google", "google:1", "acme", noEntry, true],
    ["github_actions", "github_actions:11", "acme", {}, false],
    ["github_actions", "github_actions:12", "acme", {}, true],
    ["github_actions", "github_actions:11", "acme", off, true],
    ["github_actions", "github_actions:11", "acme", noEntry, true],
  ] as const) {
    const who = { tenant_id, sub, scheme, scopes: [], issuer: "https://svc.example.com" };
    const asCron: Principal = { ...alice, tenant_id, sub: "cron", scheme: "cron", on_behalf_of: who };
    const now = { ...settings, ...(changes as object) };
    assert.deepEqual(
      [isRevoked(who, now), isRevoked(asCron, now)],
      [expected, expected],
      JSON.stringify([who, changes]),
    );
  }
});

test("a signed-in principal is revoked thirty days after its last sign-in, and without one", () => {
  const days = 86_400_000;
  const ann = { ...alice, scheme: "github", sub: "github:1" };

  assert.equal(isRevoked(ann, settings, signedIn, 30 * days), false);
  assert.equal(isRevoked(ann, settings, signedIn, 30 * days + 1), true);
  assert.equal(isRevoked(ann, settings, { ...signedIn, signInOf: () => undefined }), true);
});

test("a member whose team is no longer named is revoked", () => {
  const [one] = signInEntries.githubOrgs;
  const ann = { ...alice, scheme: "github", sub: "github:1" };
  const otherTeam = { ...settings, githubOrgs: [{ ...one, teams: [{ id: 3, scopes: [] }] }] };

  assert.equal(isRevoked(ann, otherTeam as AccessDeps["settings"]), true);
});
