// A database that release 0.1.0 left when it was killed in the middle of turns: its upgrade by this release, and its
// state for a return to 0.1.0.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pino } from "pino";
import { systemEnv } from "../../bus/env.ts";
import { HostLease } from "../../host/host-lease.ts";
import { AbandonedRuns } from "../../host/recovery.ts";
import { migrate } from "../../storage/migrate.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { idempotencyKey } from "../../storage/tables/idempotency.ts";
import {
  abandonedRuns,
  endRunOp,
  insertRunOp,
  type RunEnd,
  runKey,
  suspendLiveRunOp,
} from "../../storage/tables/runs.ts";
import { insertThreadOp, threadBySuffix } from "../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { leaveAsFirstRelease, rowsIn } from "../support/first-release.ts";
import { newRun, threadRow } from "../support/rows.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { dialects, emptyDatabase, runStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const env = systemEnv();
const log = pino({ level: "silent" });
const streamScope = JSON.stringify(["stream", "keyed", "none", "", "alice", "k"]);
const spent = { tool_calls: 0, input_tokens: 0, output_tokens: 0, cost_usd: 0, usage: null };
const end: RunEnd = {
  status: "completed",
  ended_at: 1,
  last_seq: 0,
  stop_reason: "end_turn",
  error: null,
  usage: null,
};
const chatScope = JSON.stringify(["chat", "none", "", "alice", "k"]);

for (const dialect of dialects)
  describe(`a database of release 0.1.0 on ${dialect}`, () => {
    const atEnd = cleanup();

    test("is recovered: runs are closed, keys settled or free, conversations continue", async () => {
      const config = await emptyDatabase(dialect, atEnd);
      await leaveAsFirstRelease(config, tenantId, [
        { suffix: "plain", idempotencyScope: null, answer: "nothing" },
        { suffix: "calling", idempotencyScope: null, answer: "open call" },
        { suffix: "keyed", idempotencyScope: streamScope, answer: "open call" },
        { suffix: "asked", idempotencyScope: chatScope, answer: "nothing" },
      ]);
      await migrate(config, { target: "head", downgrade: false });
      const { store } = await runStore(config, atEnd);
      const host = env.id().slice(0, 16);
      const process = new ActorProcess({
        env,
        store,
        settings: processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" }),
        model: new ScriptedModel(env, () => ({ text: ["Said."] })),
        bootId: host,
      });
      atEnd.after(() => process.close());
      const runs = new AbandonedRuns(process.bus, store, env, log);
      const tenant = store.tenant(tenantId);
      const found = await abandonedRuns(store.system, { hostsBut: host }, 0, 10);

      await new HostLease({
        store: store.system,
        host,
        alone: true,
        renewed: false,
        log,
        onGone: () => runs.close({ hostsBut: host }),
        onLost: assert.fail,
      }).keep();

      assert.deepEqual(
        found.map(({ suffix }) => suffix),
        ["plain", "calling", "keyed", "asked"],
      );
      const logOf = async (suffix: string) => {
        const head = await threadBySuffix(tenant, suffix);
        const events = await readEvents(tenant, head?.thread_key as number, 0, 100);
        return {
          epoch: head?.epoch,
          events: events.map((event) => event.content || (event.extra?.metadata?.type ?? event.kind)),
        };
      };
      const interrupted = "[tool error/interrupted] outcome unknown: it may have run (read)";
      const calling = ["go", "message", "tool_call", interrupted, "run_interrupted"];
      assert.deepEqual(await logOf("plain"), { epoch: 1, events: ["go", "run_interrupted"] });
      assert.deepEqual(await logOf("calling"), { epoch: 1, events: calling });
      assert.deepEqual(await logOf("keyed"), { epoch: 1, events: calling });
      assert.deepEqual(await abandonedRuns(store.system, { hostsBut: host }, 0, 10), []);
      assert.deepEqual(await rowsIn(config, "SELECT * FROM live_runs"), []);
      assert.match(String((await idempotencyKey(tenant, streamScope, 0))?.answer), /"to_seq":5.*interrupted/);
      assert.equal(await idempotencyKey(tenant, chatScope, 0), undefined);

      for (const suffix of ["plain", "calling"]) {
        const next = process.submit({ manifest: "agent", thread_suffix: suffix });
        assert.deepEqual(await next.accepted, { kind: "started" }, suffix);
        await next.ended;
        assert.deepEqual((await logOf(suffix)).events.slice(-2), ["go", "Said."], suffix);
      }
      const numbers = await rowsIn(config, "SELECT DISTINCT run FROM events WHERE run IS NOT NULL");
      assert.deepEqual(
        numbers.map((row) => Number(row.run)),
        [2],
      );
    });

    test("finds what this release has not brought to its end, when it comes back", async () => {
      const config = await emptyDatabase(dialect, atEnd);
      await migrate(config, { target: "head", downgrade: false });
      const works: (() => void | Promise<void>)[] = [];
      const { store } = await runStore(config, { after: (work) => void works.push(work) });
      const tenant = store.tenant(tenantId);
      await tenant.write([
        insertThreadOp(tenant, threadRow(7, "running", { epoch: 1 })),
        insertRunOp(tenant, newRun("left"), { thread_key: 7, epoch: 1, first_seq: 0 }),
        insertThreadOp(tenant, threadRow(8, "waiting", { epoch: 1 })),
        insertRunOp(tenant, newRun("parked"), { thread_key: 8, epoch: 1, first_seq: 0 }),
        suspendLiveRunOp(tenant, { run_key: runKey(8, 1), epoch: 1 }, spent),
        insertThreadOp(tenant, threadRow(9, "over", { epoch: 1 })),
        insertRunOp(tenant, newRun("done"), { thread_key: 9, epoch: 1, first_seq: 0 }),
        endRunOp(tenant, { run_key: runKey(9, 1), epoch: 1 }, end),
      ]);
      for (const work of works) await work();

      await migrate(config, { target: "0005", downgrade: true });

      assert.deepEqual(await rowsIn(config, "SELECT suffix, run_id, owner FROM live_runs ORDER BY thread_key"), [
        { suffix: "running", run_id: "left", owner: "here:1:0" },
        { suffix: "waiting", run_id: "parked", owner: "here:1:0" },
      ]);
    });
  });
