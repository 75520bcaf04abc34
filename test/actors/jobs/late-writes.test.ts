// A batch of a job that timed out, and is applied when it is sent again.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { jobsAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { type JobRow, storedJob } from "../../../storage/tables/jobs.ts";
import { storedBytes } from "../../../storage/tables/stored-bytes.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const principal = { tenant_id: tenantId, sub: "wanda", scopes: [], scheme: "none", issuer: "" };

/** The store after a timeout: a batch with this statement is applied when the next one with it comes. */
function lateStore(store: Store, statement: string): Store {
  let held: readonly WriteOp[] | null = null;
  return {
    ...store,
    tenant: (id) => {
      const scope = store.tenant(id);
      const write: TenantStore["write"] = async (ops) => {
        if (!ops.some((op) => op.statement.name === statement)) return scope.write(ops);
        if (held === null) {
          held = ops;
          throw new SvcError("storage_unavailable");
        }
        const late = held;
        held = [];
        if (late.length > 0) await scope.write(late);
        return scope.write(ops);
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

for (const dialect of gateDialects)
  describe(`a late write of a job, on ${dialect}`, () => {
    const atEnd = cleanup();

    async function jobsOver(statement: string) {
      const { store } = await testStore(dialect, atEnd);
      const env = systemEnv();
      const process = new ActorProcess({
        env,
        store: lateStore(store, statement),
        settings: processSettings(atEnd, { agent: {} }),
        model: new ScriptedModel(env, () => ({})),
        bootId: env.id(),
      });
      atEnd.after(() => process.close());
      const put = (prompt: string) => {
        const job = { schedule: "", manifest_id: "agent", payload: { prompt }, enabled: true };
        return process.bus.ask(jobsAddress(tenantId), "put", { name: "one", job, principal });
      };
      const remove = () => process.bus.ask(jobsAddress(tenantId), "remove", { name: "one", principal });
      return { tenant: store.tenant(tenantId), put, remove };
    }

    test("and its repetition count once, in either order", async () => {
      for (const statement of ["jobs_insert", "job_update"]) {
        const { tenant, put } = await jobsOver(statement);
        if (statement === "job_update") await put("short");

        await assert.rejects(put("x".repeat(1_000)), { code: "storage_unavailable" });
        await put("x".repeat(2_000));

        const { bytes, payload } = (await storedJob(tenant, "one")) as JobRow;
        assert.equal(payload.prompt?.length, 2_000);
        assert.deepEqual([await storedBytes(tenant, "jobs"), await storedBytes(tenant, "all")], [bytes, bytes]);
      }
    });

    test("deletes the job once", async () => {
      const { tenant, put, remove } = await jobsOver("job_delete");
      await put("short");

      await assert.rejects(remove(), { code: "storage_unavailable" });
      await assert.rejects(remove(), { code: "not_found" });

      assert.deepEqual([await storedJob(tenant, "one"), await storedBytes(tenant, "all")], [undefined, 0]);
    });
  });
