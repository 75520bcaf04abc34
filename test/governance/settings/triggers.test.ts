import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { readTriggers } from "../../../governance/settings/triggers.ts";

const entry = { tenant: "acme", manifest: "agent", scheme: "standard", secret: "secret:HOOK", prompt: "Go." };
const read = (fields: object, id = "deploys") => readTriggers({ [id]: { ...entry, ...fields } })[0];

describe("SVC_TRIGGERS", () => {
  test("TRIG-014 an entry has its fields and defaults", () => {
    assert.deepEqual(read({}), {
      id: "deploys",
      tenant_id: "acme",
      manifest: "agent",
      workflow: null,
      revision: null,
      inputs: {},
      scheme: "standard",
      secrets: ["secret:HOOK"],
      prompt: "Go.",
      events: [],
      scopes: [],
      rate_limit: 60,
    });
    const full = { scheme: "github", events: ["push"], scopes: ["chat:write"], rate_limit: 10_000 };
    assert.deepEqual(read({ ...full, secret: ["a", "b"] }), { ...read({}), ...full, secrets: ["a", "b"] });
  });

  for (const [what, fields, said] of [
    ["a workflow beside the manifest", { workflow: "w" }, "deploys has both manifest and workflow"],
    ["inputs", { inputs: {} }, "deploys: inputs is only for a workflow"],
    ["a revision", { revision: 1 }, "deploys: revision is only for a workflow"],
    ["events of another scheme", { events: ["push"] }, "deploys: events is only for scheme github"],
    ["another scheme", { scheme: "stripe" }, "deploys: scheme must be standard or github"],
    ["no secret", { secret: [] }, "deploys: secret must be a string, or a list of strings"],
    ["an empty secret", { secret: [""] }, "deploys: secret must be a list of non-empty strings"],
    ["a rate of none", { rate_limit: 0 }, "deploys: rate_limit must be a number from 1 to 10000"],
    ["a rate beyond the most", { rate_limit: 10_001 }, "deploys: rate_limit must be a number from 1 to 10000"],
    [
      "a scope that is none",
      { scopes: ["a b"] },
      "deploys: scopes: a scope is visible ASCII without commas and quotes",
    ],
    ["a prompt beyond the most", { prompt: "x".repeat(32_769) }, "deploys: prompt has at most 32768 characters"],
    ["a prompt of blanks", { prompt: " \n" }, "deploys: prompt must not be empty"],
    ["no tenant", { tenant: "" }, "deploys: tenant must be a non-empty string"],
    [
      "a tenant that is none",
      { tenant: "a:b" },
      "deploys: tenant: a tenant id has 1 to 128 visible characters without : # / and \\",
    ],
  ] as const)
    test(`TRIG-014 ${what} is refused, and the entry is named`, () => {
      assert.throws(() => read(fields), { message: said });
    });

  test("TRIG-014 mistakes in manifest, fields and id are refused without their text", () => {
    const { manifest: _, ...without } = entry;
    assert.throws(() => readTriggers({ a: without }), { message: "a has neither manifest nor workflow" });
    assert.throws(
      () => read({ hunter2: 1 }),
      (error: Error) => !error.message.includes("hunter2"),
    );
    for (const id of ["", "A", "-a", "a:b", "a/b", "a".repeat(65)])
      assert.throws(
        () => read({}, id),
        (error: Error) => error.message.startsWith("entry 1: an id is"),
        id,
      );
  });

  test("a secret in the entry is masked, and a named one is looked up", () => {
    const { secretValues } = loadSettings({
      SVC_TRIGGERS: JSON.stringify({ a: { ...entry, secret: ["whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "secret:HOOK"] } }),
    });
    for (const text of ["whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", "c2VjcmV0LXNlY3JldC1zZWNyZXQ="])
      assert.ok(secretValues.includes(text), text);
    assert.ok(!secretValues.includes("secret:HOOK"));
  });
});
