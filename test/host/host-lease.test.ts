// Two hosts on one store: when the lease of one expires, the other closes its runs, and the first can no longer write
// to them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pino } from "pino";
import { threadAddress } from "../../bus/address.ts";
import { type Env, systemEnv } from "../../bus/env.ts";
import { HostLease } from "../../host/host-lease.ts";
import { AbandonedRuns } from "../../host/recovery.ts";
import { systemSql } from "../../storage/store/statements.ts";
import { abandonedRuns } from "../../storage/tables/abandoned-runs.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { expireHostsOps, renewHostOp } from "../../storage/tables/hosts.ts";
import { claimKeyOp, idempotencyKey } from "../../storage/tables/idempotency.ts";
import { runByKey, runKey } from "../../storage/tables/runs.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../support/actor-process.ts";
import { eventually } from "../support/eventually.ts";
import { refusingStore } from "../support/refusing-store.ts";
import { ScriptedModel } from "../support/scripted-model.ts";
import { dialects, type TestStore, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

/** The effect of a downgrade and upgrade on the list of revisions. */
const undoneAndApplied = systemSql(
  "test_revision_again",
  "UPDATE schema_revisions SET applied_at = applied_at + 1 WHERE revision = '0000'",
);

/** Ends the leases of earlier tests. */
const noHosts = systemSql("test_no_hosts", "DELETE FROM hosts");

const env = systemEnv();
/** Time that passes twenty times as fast. The leases follow the clock of the store. */
const hasty: Env = {
  ...env,
  monotonic: () => env.monotonic() * 20,
  timer: (ms, work) => env.timer(ms / 20, work),
};
const log = pino({ level: "silent" });
const never = 2 ** 30;

for (const dialect of dialects)
  describe(`hosts that share a store on ${dialect}`, () => {
    const atEnd = cleanup();
    let database: TestStore;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      settings = processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      database = await testStore(dialect, atEnd);
    });

    /** A process with its own connection, whose model pauses this long before each piece of its answer. */
    function start({ alone = false, pauseMs = never, time = env } = {}) {
      const host = env.id().slice(0, 16);
      const store = refusingStore(database.another());
      const model = new ScriptedModel(
        env,
        () => ({ text: ["Said.", " More."] }),
        () => pauseMs,
      );
      const process = new ActorProcess({ env, store, settings, model, bootId: host });
      const runs = new AbandonedRuns(process.bus, store, env, log);
      const lost: Error[] = [];
      let looks = 0;
      const lease = new HostLease({
        env: time,
        store: store.system,
        host,
        mode: alone ? "alone" : "cluster",
        card: null,
        locked: alone,
        patienceMs: 0,
        renewed: true,
        log,
        onGone: () => {
          looks++;
          return runs.close({ hostsBut: host });
        },
        onLost: (error) => void lost.push(error),
      });
      atEnd.after(() => {
        runs.stop();
        process.close();
      });
      return { host, store, process, lease, lost, looks: () => looks };
    }
    const lapse = (host: string) => database.store.system.write([renewHostOp(database.store.system, host, 0)]);
    async function stored(suffix: string) {
      const tenant = database.store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      assert.ok(head);
      const events = await readEvents(tenant, head.thread_key, 0, 100);
      const run = await runByKey(tenant, runKey(head.thread_key, 1));
      return { head, run, kinds: events.map(({ kind, content }) => `${kind} ${content}`.trim()) };
    }

    test("the runs of a host are its own during its lease, then others close them", async () => {
      const [first, second] = [start(), start()];
      await first.lease.keep();
      await second.lease.keep();
      const turn = first.process.submit({ manifest: "agent", thread_suffix: "shared" });
      await turn.accepted;
      const claim = { scope: "claimed", fingerprint: "f", owner: `${first.host}:0:0`, run_id: "r", answer: null };
      const tenant = database.store.tenant(tenantId);
      await tenant.write([claimKeyOp(tenant, { ...claim, expires_at: env.now() + 60_000 }, env.now())]);

      await second.lease.keep();
      const held = await stored("shared");
      await lapse(first.host);
      await second.lease.keep();
      await eventually("the closed run", async () => {
        await nextTurn();
        return (await stored("shared")).run?.status === "failed" || undefined;
      });
      await eventually("the free key", async () => {
        await nextTurn();
        return (await idempotencyKey(tenant, "claimed", env.now())) === undefined || undefined;
      });

      assert.equal(held.run?.status, "running");
      const closed = await stored("shared");
      assert.deepEqual([closed.kinds, closed.head.epoch], [["message go", "audit"], 2]);
      assert.equal(closed.run?.result?.error, "interrupted");
      assert.deepEqual(await abandonedRuns(database.store.system, { hostsBut: "" }, 0, 10), []);

      // The first host returns from its stall.
      await first.process.abort("shared");
      await turn.ended;
      assert.deepEqual(await stored("shared"), closed);
      await first.lease.keep();
      assert.match(String(first.lost[0]?.message), /declared this one dead/);
      assert.deepEqual(second.lost, []);
    });

    test("runs that a host starts after its lease expired are closed by the next lookup", async () => {
      const [first, second] = [start(), start()];
      await first.lease.keep();
      await second.lease.keep();
      await lapse(first.host);
      await second.lease.keep();
      // The lookup that this started has ended; it would otherwise find the first host's next run.
      await second.lease.lookForGone();
      // The first host has stalled and does not know yet that its lease is gone.
      const turn = first.process.submit({ manifest: "agent", thread_suffix: "late" });
      await turn.accepted;
      const before = await stored("late");

      await second.lease.lookForGone();

      assert.equal(before.run?.status, "running");
      const after = await stored("late");
      assert.deepEqual([after.run?.status, after.run?.result?.error], ["failed", "interrupted"]);
      await first.process.abort("late");
      await turn.ended;
    });

    test("a thread that another host has taken is written by that host only", async () => {
      const [first, second] = [start({ pauseMs: 0 }), start({ pauseMs: 0 })];
      const say = async ({ process }: ReturnType<typeof start>) => {
        const turn = process.submit({ manifest: "agent", thread_suffix: "taken" });
        await turn.accepted;
        await turn.ended;
      };
      await say(first);
      await say(second);

      const stale = first.process.submit({ manifest: "agent", thread_suffix: "taken" });
      await assert.rejects(stale.accepted, { code: "conflict" });
      const written = await stored("taken");
      await say(first);

      assert.equal(written.kinds.length, 4);
      assert.equal((await stored("taken")).kinds.length, 6);
    });

    test("an older activation deletes nothing", async () => {
      const [first, second] = [start({ pauseMs: 0 }), start({ pauseMs: 0 })];
      const address = threadAddress(tenantId, "kept");
      for (const { process } of [first, second]) {
        const turn = process.submit({ manifest: "agent", thread_suffix: "kept" });
        await turn.accepted;
        await turn.ended;
      }

      await assert.rejects(first.process.bus.ask(address, "erase", {}), { code: "conflict" });
      assert.equal((await stored("kept")).kinds.length, 4);
      assert.deepEqual(await first.process.bus.ask(address, "erase", {}), { deleted: true });
      const tenant = database.store.tenant(tenantId);
      assert.equal(await threadBySuffix(tenant, "kept"), undefined);
    });

    test("a host with the exclusive lock removes all others at its start", async () => {
      const first = start({ alone: true });
      await first.lease.keep();
      const holder = start({ alone: true });
      await holder.lease.keep();

      assert.equal(holder.looks(), 1);
      await first.lease.keep();
      assert.equal(first.lost.length, 1);
      await holder.lease.leave();
      assert.equal(await holder.lease.keep(), 1_000);
      assert.deepEqual(holder.lost, []);
      const [left] = await database.store.system.write(expireHostsOps(database.store.system));
      assert.deepEqual(left, []);
    });

    for (const alone of [false, true])
      test(`a host ${alone ? "outside" : "of"} a cluster is refused beside another kind, with what to set`, async () => {
        await database.store.system.write([database.store.system.op(noHosts, [])]);
        const [other, own] = [start({ alone: !alone }), start({ alone, time: hasty })];
        await other.lease.keep();

        await own.lease.keep();
        await own.lease.keep();
        await other.lease.leave();

        const words = alone
          ? "hosts of a cluster use this database"
          : "an svc process outside a cluster uses this database";
        assert.deepEqual(
          own.lost.map(({ message }) => [
            message.startsWith(words),
            /set SVC_REDIS_URL and SVC_CLUSTER_KEY/.test(message),
          ]),
          [[true, true]],
        );
        assert.deepEqual([other.lost, own.looks()], [[], 0]);
      });

    test("a host whose lease a downgrade deleted reports the schema change", async () => {
      const own = await testStore(dialect, atEnd);
      const lost: Error[] = [];
      const host = env.id().slice(0, 16);
      const { store } = own;
      const options = { env, store: store.system, host, renewed: true, log, onGone: async () => {} };
      const lease = new HostLease({
        ...options,
        mode: "alone",
        card: null,
        locked: true,
        patienceMs: 0,
        onLost: (error) => void lost.push(error),
      });
      await lease.keep();
      // After a downgrade and upgrade the table of hosts is new, and so is the time of its revision.
      await store.system.write([store.system.op(undoneAndApplied, [])]);
      await store.system.write([renewHostOp(store.system, host, -10_000), ...expireHostsOps(store.system)]);

      await lease.keep();

      assert.deepEqual(
        lost.map(({ message }) => /migrated down while this process ran/.test(message)),
        [true],
      );
    });

    test("a renewal that notices a jump of the store's clock removes no host", async () => {
      const other = start();
      await other.lease.keep();
      // The store's clock runs ahead of the monotonic clock by `ahead`.
      let ahead = 0;
      const removed: number[] = [];
      const lease = new HostLease({
        ...{ store: database.store.system, host: env.id().slice(0, 16), mode: "cluster", card: null, locked: false },
        ...{ patienceMs: 0, renewed: true, log },
        env: { ...env, monotonic: () => env.monotonic() - ahead },
        onGone: async () => void removed.push(1),
        onLost: (error) => assert.fail(error),
      });
      await lease.keep();
      await lease.keep();
      const before = removed.length;

      // The store's clock jumps ahead by five minutes.
      ahead = 300_000;
      await lapse(other.host);
      await lease.keep();
      const atJump = removed.length;
      await lease.keep();
      await lease.leave();

      assert.equal(atJump, before);
      assert.equal(removed.length, before + 1);
      assert.deepEqual(other.lost, []);
    });

    test("a deadlock at the renewal ends no host", async () => {
      const { lease, store, lost, host } = start();
      await lease.keep();
      store.refused = "host_renew";
      store.refusal = "conflict";

      await lease.keep();
      store.refused = null;
      await lease.keep();
      await lease.leave();

      assert.deepEqual(lost, [], host);
    });

    test("a host whose first read fails looks for gone hosts at its next attempt", async () => {
      const { lease, store, looks } = start();
      store.unread = "schema_revisions";

      await lease.keep();
      const looksBefore = looks();
      await lease.keep();

      assert.deepEqual([looksBefore, looks()], [0, 1]);
    });

    test("a host that was declared gone is notified once, and closes no other's runs", async () => {
      const [first, second] = [start(), start()];
      await first.lease.keep();
      await second.lease.keep();
      await lapse(first.host);
      await second.lease.keep();
      await first.lease.keep();
      const looksBefore = first.looks();

      const waits = [await first.lease.keep(), await first.lease.keep()];
      await first.lease.lookForGone();
      await first.lease.leave();

      assert.deepEqual([first.lost.length, first.looks() - looksBefore, waits], [1, 0, [1_000, 1_000]]);
    });

    test("a lease that cannot be written is retried every second; nothing is closed before", async () => {
      const { store, lease, lost, looks, host } = start();
      store.refused = "host_enter";
      const waits = [await lease.keep(), await lease.keep()];
      const looksBefore = looks();
      store.refused = null;
      waits.push(await lease.keep());
      store.refused = "host_renew";
      waits.push(await lease.keep());
      store.refused = null;
      await lapse(host);

      // The renewal is late, and no other host has noticed.
      waits.push(await lease.keep());

      assert.deepEqual(waits, [1_000, 1_000, 1_000, 1_000, 1_000]);
      assert.deepEqual([looksBefore, looks(), lost], [0, 1, []]);
      const [lapsed] = await database.store.system.write(expireHostsOps(database.store.system));
      assert.deepEqual(lapsed, []);
    });
  });
