import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { isRevoked } from "../../../governance/auth/revoked.ts";

const alice: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };
const key = { entry: 1, length: 20, sha256: "0".repeat(64), tenant_id: "acme", sub: "alice", scopes: [] };
const settings = { authMode: "api_key", authApiKeys: [key], allowedTenants: [] as string[] } as const;

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
