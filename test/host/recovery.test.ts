// A lost host's successor closes all of its open runs, however long that takes.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import pino from "pino";
import { type Env, systemEnv } from "../../bus/env.ts";
import { AbandonedRuns } from "../../host/recovery.ts";
import type { Store } from "../../storage/store/store.ts";
import { abandonedRuns } from "../../storage/tables/abandoned-runs.ts";
import { claimDeliveries, deliveryStates, outboxOps } from "../../storage/tables/deliveries.ts";
import { claimKeyOp, idempotencyKey } from "../../storage/tables/idempotency.ts";
import { insertRunOp } from "../../storage/tables/runs.ts";
import { insertThreadOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { eventually } from "../support/eventually.ts";
import { refusingStore } from "../support/refusing-store.ts";
import { newRun, threadRow } from "../support/rows.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const now = 1_700_000_000_000;
const keyScope = JSON.stringify(["chat", "none", "", "alice", "key"]);

describe("abandoned runs", () => {
  const atEnd = cleanup();
  let store: Store;
  before(async () => {
    ({ store } = await testStore("sqlite", atEnd));
  });

  /** A successor whose store refuses as the test says and whose timers the test fires. */
  function successor() {
    const timers: { delayMs: number; work: () => void }[] = [];
    const held: Env = {
      ...systemEnv(),
      timer(delayMs, work) {
        timers.push({ delayMs, work });
        return { cancel() {} };
      },
    };
    const env: Env = { ...systemEnv(), now: () => now };
    const refusing = refusingStore(store);
    const process = new ActorProcess({
      env,
      store: refusing,
      settings: processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" }),
      model: new ScriptedModel(env, () => ({})),
      bootId: env.id(),
    });
    atEnd.after(() => process.close());
    return { timers, refusing, runs: new AbandonedRuns(process.bus, refusing, held, pino({ level: "silent" })) };
  }

  /** Threads with a live run of a lost process, and a key that it claimed. */
  async function abandon(count: number): Promise<void> {
    const tenant = store.tenant(tenantId);
    const first = await reserveThreadKeys(store.system, count);
    const ops = Array.from({ length: count }, (_, at) => first + at).flatMap((thread_key) => {
      const suffix = `thread-${thread_key}`;
      const run = newRun(`run-${thread_key}`, { owner: "gone:1:0", started_at: now });
      return [
        insertThreadOp(tenant, threadRow(thread_key, suffix)),
        insertRunOp(tenant, run, { thread_key, epoch: 0, first_seq: 0 }),
      ];
    });
    const claim = { scope: keyScope, fingerprint: "f", owner: "gone:1:0", run_id: "r", answer: null };
    await tenant.write([...ops, claimKeyOp(tenant, { ...claim, expires_at: now + 60_000 }, now)]);
  }

  const gone = { hostsBut: "here" };
  const left = async () => (await abandonedRuns(store.system, gone, 0, 10_000)).length;
  const claimed = async () => (await idempotencyKey(store.tenant(tenantId), keyScope, now)) !== undefined;

  test("are all closed, over several pages, and then the keys of their process are free", async () => {
    await abandon(1_100);
    const { timers, runs } = successor();

    await runs.close(gone);

    assert.deepEqual([await left(), await claimed()], [0, false]);
    assert.deepEqual(timers, []);
  });

  test("that cannot be closed yet are retried, and free no key before", async () => {
    await abandon(3);
    const { timers, refusing, runs } = successor();
    refusing.refused = "run_end";

    await runs.close(gone);
    assert.deepEqual([await left(), await claimed()], [3, true]);
    assert.deepEqual(
      timers.map(({ delayMs }) => delayMs),
      [500],
    );
    refusing.refused = null;
    timers.shift()?.work();
    await eventually("closed runs", async () => {
      await nextTurn();
      return ((await left()) === 0 && !(await claimed())) || undefined;
    });

    assert.deepEqual(timers, []);
  });

  test("are retried in one sequence despite other lookups, and looked up again after it", async () => {
    await abandon(1);
    const { timers, refusing, runs } = successor();
    refusing.refused = "run_end";
    const looks = () => refusing.reads.get("runs_of_lapsed_hosts");

    await Promise.all([runs.close(gone), runs.close(gone)]);
    for (let minute = 0; minute < 5; minute++) await runs.close(gone);
    const before = [looks(), timers.length];
    refusing.refused = null;
    timers.shift()?.work();
    await runs.close(gone);
    await abandon(1);
    await runs.close(gone);

    // One attempt, including the search for a second page.
    assert.deepEqual(before, [2, 1]);
    assert.deepEqual([await left(), await claimed()], [0, false]);
    assert.deepEqual(timers, []);
  });

  test("are not retried after a stop in the middle of a failing attempt", async () => {
    await abandon(1);
    const { timers, refusing, runs } = successor();
    refusing.refused = "run_end";

    const closing = runs.close(gone);
    runs.stop();
    await closing;

    assert.deepEqual([timers, await left()], [[], 1]);
    await successor().runs.close(gone);
  });

  test("are looked up at growing intervals, up to 30 seconds, until the stop", async () => {
    await abandon(1);
    const { timers, refusing, runs } = successor();
    refusing.refused = "idempotency_release_of_lapsed_hosts";
    const delays: number[] = [];

    void runs.close(gone);
    for (let attempt = 0; attempt < 8; attempt++) {
      const timer = await eventually("another attempt", async () => {
        await nextTurn();
        return timers.shift();
      });
      delays.push(timer.delayMs);
      timer.work();
    }
    const last = await eventually("the last attempt", async () => {
      await nextTurn();
      return timers.shift();
    });
    runs.stop();
    // A late timer would find runs that can be closed now.
    refusing.refused = null;
    last.work();
    await runs.close(gone);

    assert.deepEqual(delays, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    assert.deepEqual(timers, []);
    assert.equal(await claimed(), true);
  });

  test("release their webhooks, which others send at once", async () => {
    const tenant = store.tenant(tenantId);
    await tenant.write(outboxOps(tenant, { source: "left", type: "run.completed", body: "{}", endpoints: ["ops"] }));
    const claimed = await claimDeliveries(tenant, "ops", { owner: "gone:1:0", forMs: 3_600_000, limit: 1 });
    const { timers, refusing, runs } = successor();
    refusing.refused = "deliveries_release_of_lapsed_hosts";

    await runs.close(gone);
    const before = [timers.length, (await deliveryStates(tenant, "left")).ops];
    refusing.refused = null;
    timers.shift()?.work();

    assert.deepEqual([claimed.length, ...before], [1, 1, "pending"]);
    // The endpoint is gone, so a dead delivery shows that the queue was woken.
    await eventually("the end of the webhook", async () => {
      await nextTurn();
      return (await deliveryStates(tenant, "left")).ops === "dead" || undefined;
    });
  });
});
