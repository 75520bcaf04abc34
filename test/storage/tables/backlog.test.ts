// The backlog on both engines: unfinished runs by state, and the age of the oldest waiting ones.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store } from "../../../storage/store/store.ts";
import { backlog } from "../../../storage/tables/backlog.ts";
import {
  acceptDurableOp,
  claimDurableOp,
  endDurableOp,
  suspendDurableOp,
} from "../../../storage/tables/durable-rows.ts";
import { beginRunOp, endRunOp, resumeRunOp, runBegun, suspendLiveRunOp } from "../../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../../storage/tables/threads.ts";
import { openWaitOp } from "../../../storage/tables/waits.ts";
import { newRun, threadRow } from "../../support/rows.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const spent = { tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, usage: null };
const hourMs = 3_600_000;
const nothing = { queued: 0, running: 0, parked: 0, oldestRunMs: 0, oldestDueMs: 0, oldestWaitMs: 0 };

for (const dialect of dialects)
  describe(`the backlog on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    test("OPS-008 unfinished runs are counted by state over all tenants; ended ones are not", async () => {
      assert.deepEqual(await backlog(store.system), nothing);
      const now = Date.now();

      for (const [n, stand] of (
        ["accepted", "accepted", "running", "waiting", "waiting", "waiting", "over"] as const
      ).entries()) {
        const tenant = store.tenant(`t${n % 2}`);
        const thread_key = await reserveThreadKeys(store.system, 1);
        const run = newRun(`run-${n}`, { asked: { ...newRun("x").asked, durable: { ttl_ms: hourMs } } });
        const row = runBegun(run, { thread_key, epoch: 0, first_seq: 0 }, "accepted");
        const { run_key } = row;
        const taken = [resumeRunOp(tenant, row, { owner: "o", epoch: 1 }), claimDurableOp(tenant, run.run_id)];
        const end = {
          status: "completed",
          stop_reason: null,
          error: null,
          usage: null,
          ended_at: 1,
          last_seq: 0,
        } as const;
        const done = [
          endRunOp(tenant, { run_key, epoch: 1 }, end),
          endDurableOp(tenant, run.run_id, { final: "", error: null, expires_at: 1 }),
        ];
        const parked = [suspendLiveRunOp(tenant, { run_key, epoch: 1 }, spent), suspendDurableOp(tenant, run.run_id)];
        await tenant.write([
          insertThreadOp(tenant, threadRow(thread_key, `s${n}`)),
          beginRunOp(tenant, row),
          // The first run has been due for an hour; the finished one was accepted long before.
          acceptDurableOp(tenant, row, `s${n}`, stand === "over" ? 1 : now - (n === 0 ? hourMs : 0)),
          ...(stand === "accepted" ? [] : taken),
          ...(stand === "over" ? done : []),
          ...(stand === "waiting" ? parked : []),
        ]);
      }

      const { oldestRunMs, oldestDueMs, ...counts } = await backlog(store.system);
      assert.deepEqual(counts, { queued: 2, running: 1, parked: 3, oldestWaitMs: 0 });
      for (const age of [oldestRunMs, oldestDueMs]) assert.ok(age >= hourMs && age < 2 * hourMs, String(age));
    });

    test("OPS-008 the oldest wait is the open one that was opened first", async () => {
      const tenant = store.tenant("waits");
      const now = Date.now();
      const wait = (wait_id: string, opened_at: number) =>
        openWaitOp(tenant, {
          ...{
            wait_id,
            thread_key: 1,
            suffix: "s",
            run_id: "r",
            asked_on: 1,
            beside: 0,
            kind: "approval",
            subject: "s",
          },
          may_answer: { scopes: [], principal: null, not_principal: null },
          call: { tool_call_id: "c", tool: "t", args: {}, control: null },
          ...{ opened_at, deadline: null, approval_id: null, frame: null, asked_as: null },
        });
      await tenant.write([wait("young", now), wait("old", now - hourMs)]);

      const { oldestWaitMs } = await backlog(store.system);

      assert.ok(oldestWaitMs >= hourMs && oldestWaitMs < 2 * hourMs, String(oldestWaitMs));
    });
  });
