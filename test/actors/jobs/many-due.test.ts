// Many jobs of a tenant that are due at the same time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { jobsAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import { jobsOf } from "../../../storage/tables/jobs.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const principal = { tenant_id: tenantId, sub: "wanda", scopes: [], scheme: "none", issuer: "" };
const makeDue = tenantSql("test_jobs_due", "UPDATE jobs SET next_run_at = 1 WHERE tenant_id = :tenant");

for (const [words, stepMs, fired] of [
  ["all of them fire", 0, 40],
  ["those fire for which there is time", 1_000, 16],
] as const)
  test(`of 40 jobs that are due when somebody looks ${words}`, async (t) => {
    const atEnd = cleanup(t);
    const { store } = await testStore("sqlite", atEnd);
    const tenant = store.tenant(tenantId);
    let now = 0;
    const env = { ...systemEnv(), monotonic: () => (now += stepMs) };
    const process = new ActorProcess({
      env,
      store,
      settings: processSettings(atEnd, { agent: {} }),
      model: new ScriptedModel(env, () => ({ text: ["Done."] })),
      bootId: env.id(),
    });
    atEnd.after(() => process.close());
    const to = jobsAddress(tenantId);
    const job = { schedule: "* * * * *", manifest_id: "agent", payload: { prompt: "go" }, enabled: true };
    for (let n = 0; n < 40; n++) await process.bus.ask(to, "put", { name: `job-${n}`, job, principal });
    await tenant.write([tenant.op(makeDue, [])]);

    process.bus.tell(to, "look", {});
    await process.bus.ask(to, "settle", {});

    const jobs = await jobsOf(tenant, 100);
    assert.equal(jobs.filter(({ last_run_at }) => last_run_at !== null).length, fired);
  });
