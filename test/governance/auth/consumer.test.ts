import assert from "node:assert/strict";
import { test } from "node:test";
import { consumerOf } from "../../../governance/auth/consumer.ts";

const settings = {
  consumerSharedSecret: "",
  consumerTenant: "acme",
  authMode: "none",
  environment: "development",
} as const;

test("QUEUE-003 a missing secret admits a consumer in auth mode none only", () => {
  const required = { code: "consumer_shared_secret_required" };

  const { tenant_id, scopes } = consumerOf(settings, undefined);

  assert.deepEqual([tenant_id, scopes], ["acme", []]);
  for (const other of [{ authMode: "api_key" }, { authMode: "jwt" }, { environment: "production" }] as const)
    assert.throws(() => consumerOf({ ...settings, ...other }, undefined), required);
});

test("QUEUE-003 a consumer belongs to the tenant of its secret", () => {
  const secrets = { acme: "a secret of acme", globex: "a secret of globex" };
  const several = { ...settings, consumerSharedSecret: secrets };

  assert.equal(consumerOf(several, secrets.acme).tenant_id, "acme");
  assert.equal(consumerOf(several, secrets.globex).tenant_id, "globex");
  for (const shown of [undefined, "", "a secret", `${secrets.acme} `])
    assert.throws(() => consumerOf(several, shown), { code: "unauthorized" });
});
