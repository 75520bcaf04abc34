import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { hasScopes, missingScopes, requireChat, requireScopes } from "../../../governance/auth/scopes.ts";

function caller(...scopes: string[]): Principal {
  return { tenant_id: "acme", sub: "alice", scopes, scheme: "api_key", issuer: "" };
}

const scope = fc
  .tuple(fc.constantFrom("audit", "plans", "skills", "x"), fc.constantFrom("read", "write", "personal"))
  .map(([area, access]) => `${area}:${access}`);
const scopes = fc.array(scope, { maxLength: 6 });

describe("scopes", () => {
  test("a scope satisfies itself; another scope only as write satisfies read", () => {
    fc.assert(
      fc.property(scopes, scope, (held, wanted) => {
        const [area, access] = wanted.split(":");
        const expected = held.includes(wanted) || (access === "read" && held.includes(`${area}:write`));

        assert.equal(hasScopes(caller(...held), [wanted]), expected);
      }),
    );
  });

  test("admin and * satisfy everything", () => {
    fc.assert(
      fc.property(scopes, scopes, fc.constantFrom("admin", "*"), (held, wanted, all) => {
        assert.deepEqual(missingScopes(caller(...held, all), wanted), []);
      }),
    );
  });

  test("a lookalike of a broader scope does not", () => {
    for (const held of ["audit", "audit:*", "audit:", "*:read", "administrator", "Admin", "audit:writer", ":write"]) {
      assert.ok(!hasScopes(caller(held), ["audit:read"]), held);
    }
  });

  test("missing scopes are named in the requested order", () => {
    assert.throws(() => requireScopes(caller("b:write"), ["c:write", "b:read", "a:read"]), {
      code: "missing_scopes",
      details: { detail: "missing scopes: c:write a:read" },
    });
  });

  test("a route without a required scope is open to a key without any", () => {
    assert.doesNotThrow(() => requireScopes(caller(), []));
  });
});

describe("chat", () => {
  test("with any, a single scope of any kind admits and none does not", () => {
    assert.doesNotThrow(() => requireChat(caller("usage:read"), "any", "write"));
    assert.throws(() => requireChat(caller(), "any", "read"), {
      code: "missing_scopes",
      details: { detail: "missing scopes: chat" },
    });
  });

  const strict: [string, "read" | "write", string | null][] = [
    ["chat:read", "read", null],
    ["chat:write", "read", null],
    ["chat:write", "write", null],
    ["admin", "write", null],
    ["*", "write", null],
    ["chat:read", "write", "missing scopes: chat:write"],
    ["usage:read", "read", "missing scopes: chat:read"],
    ["usage:read", "write", "missing scopes: chat:write"],
  ];
  for (const [held, access, detail] of strict) {
    test(`with strict, ${held} ${detail ? "does not let" : "lets"} its holder ${access}`, () => {
      const check = () => requireChat(caller(held), "strict", access);

      if (detail) assert.throws(check, { code: "missing_scopes", details: { detail } });
      else assert.doesNotThrow(check);
    });
  }

  test("in mode none no scope is required", () => {
    assert.doesNotThrow(() => requireChat({ ...caller(), scheme: "none" }, "strict", "write"));
  });
});
