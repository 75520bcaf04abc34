// Many jobs of a tenant that are due at the same time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { jobsAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { jobsOf } from "../../../storage/tables/jobs.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const principal = { tenant_id: tenantId, sub: "wanda", scopes: [], scheme: "none", issuer: "" };
const makeDue = tenantSql("test_jobs_due", "UPDATE jobs SET next_run_at = 1 WHERE tenant_id = :tenant");

for (const [words, stepMs, fired] of [
  ["all of them fire", 0, 40],
  ["those fire for which there is time", 50, 16],
] as const)
  test(`40 due jobs of one tenant ${words}`, async (t) => {
    const atEnd = cleanup(t);
    const { store } = await testStore("sqlite", atEnd);
    const tenant = store.tenant(tenantId);
    let tookMs = 0;
    const env = { ...systemEnv(), monotonic: () => tookMs };
    const process = new ActorProcess({
      env,
      store: watchedStore(store, () => {
        tookMs += stepMs;
      }),
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

/** A store that calls `onFiring` before the claim of a job, and does not claim it when that rejects. */
function watchedStore(store: Store, onFiring: (isOf: (job: string) => boolean) => Promise<void> | void): Store {
  return {
    ...store,
    tenant: (id) => {
      const scope = store.tenant(id);
      const write: TenantStore["write"] = async (ops, ...rest) => {
        const begun = ops.find((op) => op.statement.name === "job_begin");
        if (begun !== undefined) await onFiring((job) => begun.params.includes(job));
        return scope.write(ops, ...rest);
      };
      return {
        ...{ tenantId: scope.tenantId, inOrder: scope.inOrder, write },
        op: (...asked) => scope.op(...asked),
        read: (...asked) => scope.read(...asked),
        readLong: (...asked) => scope.readLong(...asked),
      };
    },
  };
}

test("a firing that fails admits no job before the others of its round have ended", async (t) => {
  const atEnd = cleanup(t);
  const { store } = await testStore("sqlite", atEnd);
  const tenant = store.tenant(tenantId);
  const env = systemEnv();
  const held = Promise.withResolvers<void>();
  const allowed = Promise.withResolvers<void>();
  const process = new ActorProcess({
    env,
    store: watchedStore(store, async (isOf) => {
      if (isOf("job-0")) throw new SvcError("storage_unavailable");
      if (!isOf("job-1")) return;
      held.resolve();
      await allowed.promise;
    }),
    settings: processSettings(atEnd, { agent: {} }),
    model: new ScriptedModel(env, () => ({ text: ["Done."] })),
    bootId: env.id(),
  });
  atEnd.after(() => process.close());
  const to = jobsAddress(tenantId);
  const job = { schedule: "* * * * *", manifest_id: "agent", payload: { prompt: "go" }, enabled: true };
  for (const name of ["job-0", "job-1"]) await process.bus.ask(to, "put", { name, job, principal });
  await tenant.write([tenant.op(makeDue, [])]);

  process.bus.tell(to, "look", {});
  // The put queues after the round. It must not find a job still due in its row while that job fires.
  const order: string[] = [];
  const put = process.bus.ask(to, "put", { name: "job-1", job, principal }).then(() => order.push("put"));
  await held.promise;
  const other = store.tenant("other");
  for (let write = 0; write < 50; write++) await other.write([other.op(makeDue, [])]);
  order.push("fired");
  allowed.resolve();
  await put;

  assert.deepEqual(order, ["fired", "put"]);
});
