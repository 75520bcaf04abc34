import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { AuditLog } from "../../governance/audit.ts";
import { SecretMask } from "../../governance/secrets.ts";
import { auditPage } from "../../storage/audit.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const event = (event_type: string) => ({
  event_type,
  status: "ok",
  manifest_id: "agent",
  principal_subj: "alice",
  payload: {},
});

test("events of one millisecond are listed in their order, and their ids tell nothing of other tenants", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  let now = 1_700_000_000_000;
  const env = { ...systemEnv(), now: () => now };
  const log = new AuditLog(store, env, new SecretMask([]), 0, () => assert.fail("dropped"));
  const types = Array.from({ length: 40 }, (_, i) => `type-${i}`);

  for (const type of types) log.record("acme", event(type));
  for (let i = 0; i < 1000; i++) log.record("globex", event("noise"));
  now += 1;
  log.record("acme", event("later"));
  await log.flush();

  const { rows } = await auditPage(store.tenant("acme"), {}, null, 100);
  assert.deepEqual(
    rows.map(({ event_type }) => event_type),
    ["later", ...types.toReversed()],
  );
  assert.equal(rows[0]?.id.slice(0, 4), "0000");
});
