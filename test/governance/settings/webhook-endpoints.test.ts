import assert from "node:assert/strict";
import { test } from "node:test";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { bootRefusals } from "../../../governance/settings/boot-refusals.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { openEndpoint, readWebhookEndpoints } from "../../../governance/settings/webhook-endpoints.ts";
import { parseManifest } from "../../../manifests/parse/parse.ts";
import { outcomeOf } from "../../support/outcome.ts";

const ops = { url: "https://hooks.example/svc?key=1", secret: "whsec_c2VjcmV0IG9mIG9wcw==", tenants: ["acme"] };
const settingsOf = (document: unknown, more: Record<string, string> = {}) =>
  loadSettings({ SVC_WEBHOOK_ENDPOINTS: JSON.stringify(document), ...more });

test("an endpoint is read with every default filled in", () => {
  const read = readWebhookEndpoints({ ops, all: { ...ops, secret: ["a", "secret:B"], tenants: "*", private: true } });

  assert.deepEqual(read, {
    ops: { url: ops.url, secrets: [ops.secret], tenants: ["acme"], private: false, hooks: false },
    all: { url: ops.url, secrets: ["a", "secret:B"], tenants: "*", private: true, hooks: false },
  });
});

for (const [what, entry] of [
  ["ops: tenants is missing", { ...ops, tenants: undefined }],
  ['ops: tenants must name a tenant, or be "*"', { ...ops, tenants: [] }],
  ["ops: tenants: a tenant id has 1 to 128 visible characters without : # / and \\", { ...ops, tenants: ["*"] }],
  ["ops: tenants must be a list of non-empty strings", { ...ops, tenants: "acme" }],
  ["ops: url must be an https URL", { ...ops, url: "ftp://hooks.example" }],
  ["ops: url must not carry a user name or password", { ...ops, url: "https://u:pass@hooks.example" }],
  ["ops: url must not carry a fragment", { ...ops, url: "https://hooks.example/#x" }],
  ["ops: secret must be a non-empty string", { ...ops, secret: "" }],
  ["ops: secret has 1 to 8 secrets", { ...ops, secret: [] }],
  ["ops: secret: whsec_ must be followed by base64, and secret: by a name", { ...ops, secret: "whsec_hunter2!" }],
  ["ops: secret: whsec_ must be followed by base64, and secret: by a name", { ...ops, secret: "secret:" }],
  ["ops: private must be true or false", { ...ops, private: "yes" }],
  ["ops has a key other than url, secret, tenants, private, hooks", { ...ops, hunter2: 1 }],
] as const)
  test(`a mistake is reported with its path and without its value: ${what}`, () => {
    assert.throws(() => readWebhookEndpoints(JSON.parse(JSON.stringify({ ops: entry }))), { message: what });
  });

test("C-19 an id is one that a manifest can name, and no other", async () => {
  for (const id of [
    "a",
    "0",
    "ops-1_x",
    "a".repeat(64),
    "A",
    "_a",
    "-a",
    "a.b",
    "",
    "a".repeat(65),
    "ä",
    "__proto__",
  ]) {
    const inRegistry = (() => {
      try {
        return Object.keys(readWebhookEndpoints(JSON.parse(`{"${id}": ${JSON.stringify(ops)}}`))).length === 1;
      } catch {
        return false;
      }
    })();
    const spec = { execution: { mode: "durable", webhooks: [id] } };
    const inManifest = await outcomeOf((async () => parseManifest({ metadata: { name: "m" }, spec }))());

    assert.equal(inRegistry, "answer" in inManifest, id);
  }
});

test("an endpoint exists for its tenants only, and names of Object.prototype are none", () => {
  const endpoints = readWebhookEndpoints({ ops, all: { ...ops, tenants: "*" } });

  assert.ok(openEndpoint(endpoints, "ops", "acme"));
  assert.ok(openEndpoint(endpoints, "all", "globex"));
  for (const [id, tenant] of [
    ["ops", "globex"],
    ["none", "acme"],
    ["constructor", "acme"],
    ["toString", "acme"],
  ] as const)
    assert.equal(openEndpoint(endpoints, id, tenant), null);
});

test("SET-004 http needs SVC_ALLOW_INSECURE, and a named secret must exist", () => {
  const plain = { ops: { ...ops, url: "http://127.0.0.1:9/hook" } };
  const named = { ops: { ...ops, secret: ["secret:OPS_KEY"] } };
  const about = (settings: ReturnType<typeof settingsOf>) =>
    bootRefusals(settings).filter((line) => line.startsWith("SVC_WEBHOOK_ENDPOINTS"));

  assert.equal(about(settingsOf(plain)).length, 1);
  assert.equal(about(settingsOf(plain, { SVC_ALLOW_INSECURE: "true", SVC_ENVIRONMENT: "staging" })).length, 1);
  assert.deepEqual(about(settingsOf(plain, { SVC_ALLOW_INSECURE: "true" })), []);
  assert.equal(about(settingsOf(named)).length, 1);
  assert.deepEqual(about(settingsOf(named, { SVC_SECRET_OPS_KEY: "x" })), []);
  assert.deepEqual(about(settingsOf(named, { SVC_SECRETS_BACKEND: "file" })), []);
});

test("secrets of endpoints are masked everywhere, with their prefix and without", () => {
  const secret = `whsec_${Buffer.from("an unguessable secret 7f3a9b").toString("base64")}`;
  const { secretValues } = settingsOf({ ops: { ...ops, secret: [secret, "another unguessable 81c2d4e6"] } });
  const mask = new SecretMask(secretValues);

  const line = mask.recorded.jsonText(
    JSON.stringify({ a: secret, b: secret.slice(6), c: "another unguessable 81c2d4e6" }),
  );

  for (const part of [secret.slice(6), "81c2d4e6"]) assert.ok(!line.includes(part), line);
});
