import assert from "node:assert/strict";
import { test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { withHeldScopes } from "../../../governance/auth/held-scopes.ts";
import type { Settings } from "../../../governance/settings/settings.ts";

const alice: Principal = { tenant_id: "acme", sub: "alice", scopes: [], scheme: "api_key", issuer: "" };
const cron: Principal = {
  ...alice,
  ...{ sub: "cron", scheme: "cron" },
  on_behalf_of: { sub: "alice", scheme: "api_key", issuer: "" },
};
const deploys: Principal = { ...alice, sub: "trigger:deploys", scheme: "trigger" };

/** Alice's keys with these scopes, keys of other callers, and a trigger. */
function settings(...ofAlice: readonly (readonly string[])[]) {
  const key = { entry: 1, length: 20, sha256: "0".repeat(64), tenant_id: "acme", sub: "alice" };
  return {
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
