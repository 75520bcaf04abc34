import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { isRevoked } from "../../../governance/auth/revoked.ts";

const alice: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };
const key = { entry: 1, length: 20, sha256: "0".repeat(64), tenant_id: "acme", sub: "alice", scopes: [] };
const settings = { authMode: "api_key", authApiKeys: [key], allowedTenants: [] as string[] } as const;

test("whoever has no key of the same tenant and the same name any more is revoked", () => {
  for (const [who, expected] of [
    [alice, false],
    [{ ...alice, sub: "bob" }, true],
    [{ ...alice, tenant_id: "globex" }, true],
    [{ ...alice, scheme: "none", sub: "local" }, false],
  ] as const)
    assert.equal(isRevoked(who, settings), expected, JSON.stringify(who));
});

test("of what runs on behalf of somebody, that one is looked at, whatever it runs as", () => {
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

test("whose tenant is not let in is revoked, whatever they have shown", () => {
  const others = { ...settings, allowedTenants: ["globex"] };

  assert.equal(isRevoked(alice, others), true);
  assert.equal(isRevoked({ ...alice, scheme: "jwt" }, others), true);
  assert.equal(isRevoked({ ...alice, scheme: "jwt" }, { ...settings, allowedTenants: ["acme"] }), false);
});
