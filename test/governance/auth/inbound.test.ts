import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { admit } from "../../../governance/auth/inbound.ts";

type Inbound = Parameters<typeof admit>[1];

function caller(scheme: string, ...scopes: string[]): Principal {
  return { tenant_id: "acme", sub: "alice", scopes, scheme, issuer: "" };
}

function inbound(changes: Partial<Inbound> = {}): Inbound {
  return { schemes: [], required_scopes: [], allow_anonymous: false, ...changes };
}

describe("a manifest admits", () => {
  const admitted: [string, Principal, Inbound][] = [
    ["any scheme when it names none", caller("api_key"), inbound()],
    ["a scheme that it names", caller("api_key"), inbound({ schemes: ["jwt", "api_key"] })],
    ["every JWT scheme under jwt: github", caller("github"), inbound({ schemes: ["jwt"] })],
    ["every JWT scheme under jwt: github_actions", caller("github_actions"), inbound({ schemes: ["jwt"] })],
    ["every JWT scheme under jwt: google", caller("google"), inbound({ schemes: ["jwt"] })],
    ["a trigger that it names", caller("trigger"), inbound({ schemes: ["jwt", "trigger"] })],
    ["a caller with the scopes", caller("jwt", "a:write"), inbound({ required_scopes: ["a:read", "a:write"] })],
    ["admin", caller("jwt", "admin"), inbound({ required_scopes: ["a:read"] })],
    ["anonymous callers when it says so", caller("anonymous"), inbound({ allow_anonymous: true })],
    ["everybody in mode none", caller("none"), inbound({ schemes: ["jwt"], required_scopes: ["a:read"] })],
  ];
  for (const [name, principal, rules] of admitted) {
    test(name, () => {
      assert.doesNotThrow(() => admit(principal, rules));
    });
  }
});

describe("a manifest refuses", () => {
  const refused: [string, Principal, Inbound, object][] = [
    [
      "anonymous callers",
      caller("anonymous"),
      inbound(),
      { code: "unauthorized", details: { reason: "missing_credentials" } },
    ],
    [
      "anonymous callers before it looks at the scheme",
      caller("anonymous"),
      inbound({ schemes: ["jwt"], required_scopes: ["a:read"] }),
      { code: "unauthorized", status: 401 },
    ],
    [
      "anonymous callers whose scheme it does not name",
      caller("anonymous"),
      inbound({ allow_anonymous: true, schemes: ["jwt"] }),
      { code: "auth_scheme_not_allowed" },
    ],
    [
      "another scheme",
      caller("api_key"),
      inbound({ schemes: ["jwt"] }),
      { code: "auth_scheme_not_allowed", status: 403 },
    ],
    [
      "jwt where it names one JWT scheme",
      caller("jwt"),
      inbound({ schemes: ["github"] }),
      { code: "auth_scheme_not_allowed" },
    ],
    [
      "a trigger that it does not name",
      caller("trigger"),
      inbound({ schemes: ["jwt"] }),
      { code: "auth_scheme_not_allowed" },
    ],
    [
      "another scheme before it looks at scopes",
      caller("api_key"),
      inbound({ schemes: ["jwt"], required_scopes: ["a:read"] }),
      { code: "auth_scheme_not_allowed" },
    ],
    [
      "a caller without the scopes",
      caller("jwt", "b:write"),
      inbound({ required_scopes: ["a:read", "b:read", "c:read"] }),
      { code: "missing_scopes", status: 403, details: { detail: "missing scopes: a:read c:read" } },
    ],
  ];
  for (const [name, principal, rules, error] of refused) {
    test(name, () => {
      assert.throws(() => admit(principal, rules), error);
    });
  }
});
