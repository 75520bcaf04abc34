import assert from "node:assert/strict";
import { test } from "node:test";
import { loadSettings } from "../../governance/settings/settings.ts";
import { warningsOfScopes } from "../../host/scope-warnings.ts";
import { plugin } from "../support/notes-plugin.ts";
import { apiKeys } from "../support/server.ts";

const plugins = [{ from: "notes", plugin }];

test("a scope that resembles one of svc's causes a warning with the entry, not the key", () => {
  const { env, keys } = apiKeys({
    right: { scopes: ["chat:write"] },
    slips: { scopes: ["chat:wrtie", "approval:write", "Admin", "usage", "note:read", "chat:*"] },
  });
  const deploys = {
    tenant: "acme",
    manifest: "quick",
    scheme: "github",
    secret: "a-secret-of-16-bytes",
    prompt: "Look.",
  };
  const triggers = { deploys: { ...deploys, scopes: ["files:raed"] } };

  const warnings = warningsOfScopes(loadSettings({ ...env, SVC_TRIGGERS: JSON.stringify(triggers) }), plugins);

  const ofKey = (scope: string, meant: string) =>
    `SVC_AUTH_API_KEYS: entry 2 has the scope ${scope}, which no route asks for. ${meant}`;
  assert.deepEqual(warnings, [
    ofKey("chat:wrtie", "Did you mean chat:write?"),
    ofKey("approval:write", "Did you mean approvals:write?"),
    ofKey("Admin", "Did you mean admin?"),
    ofKey("usage", "Did you mean usage:read?"),
    ofKey("note:read", "Did you mean notes:read?"),
    ofKey("chat:*", "Only * alone matches other scopes."),
    "SVC_TRIGGERS: deploys has the scope files:raed, which no route asks for. Did you mean files:read?",
  ]);
  for (const key of Object.values(keys)) assert.ok(!warnings.join().includes(key));
});

test("scopes of svc, of plugins and of policies cause no warning", () => {
  const scopes = [
    ...[
      "*",
      "admin",
      "chat",
      "chat:read",
      "usage:write",
      "audit:write",
      "approvals:bypass",
      "tasks:run",
      "notes:write",
    ],
    ...["deploy:write", "tickets:read", "memory:read", "documents:write", "eval:read", "skills:personal", "geo"],
  ];
  const { env } = apiKeys({ all: { scopes }, none: { scopes: [] } });

  assert.deepEqual(warningsOfScopes(loadSettings({ ...env, SVC_DUTIES: "worker" }), plugins), []);
});
