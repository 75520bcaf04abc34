// Limiters as threads use them: over the bus, in simulated time, with many callers, in one process or in several on one
// store.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type LimiterDeps, limiterActor } from "../../../actors/limiter/limiter-actor.ts";
import { sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import type { RateLease } from "../../../bus/protocol/limiter.ts";
import { deleteFullBuckets } from "../../../storage/tables/rate-buckets.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { type RefusingStore, refusingStore } from "../../support/refusing-store.ts";
import { SimNet } from "../../support/sim-bus.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

const atEnd = cleanup();
const actorNodes = [0, 1];
/** Threads that take requests. */
const askers = [2, 3, 4];
const passivateMs = 300_000 + 2 * sweepMs;

interface WorldOptions {
  readonly seed?: number;
  readonly sim?: Sim;
  readonly disk?: SimDisk;
  /** The id of the process, distinct for each one on a disk. */
  readonly host?: string;
}

async function world(rateLimit: number, rateLimitWindowSeconds: number, options: WorldOptions = {}) {
  const sim = options.sim ?? new Sim(options.seed ?? 1);
  const disk = options.disk ?? (await SimDisk.open(atEnd));
  const host = options.host ?? "host";
  const holders: LimiterDeps["tokenPrefetches"] = new Set();
  const counted = { writes: 0, degraded: 0 };
  const stores: RefusingStore[] = [];
  let incarnation = 0;
  const net = new SimNet(sim, {
    actorNodes,
    otherNodes: askers,
    hostOf: () => host,
    definitions: [limiterActor],
    depsOf: (node, env): LimiterDeps => {
      const store = refusingStore(disk.store(sim, env));
      const { system } = store;
      const counting = new Proxy(system, {
        get(target, property) {
          const value: unknown = Reflect.get(target, property, target);
          if (property !== "write") return typeof value === "function" ? value.bind(target) : value;
          return (...args: Parameters<typeof system.write>) => {
            counted.writes++;
            return system.write(...args);
          };
        },
      });
      stores.push(store);
      return {
        settings: { rateLimit, rateLimitWindowSeconds },
        store: { system: counting },
        metrics: {
          count(_name, labels) {
            assert.deepEqual(labels, { control: "rate_limit", manifest_id: "", reason: "store" });
            counted.degraded++;
          },
        },
        owner: `${host}:${node}:${incarnation++}`,
        tokenPrefetches: holders,
      };
    },
  });
  const ask = (key: string, want: number, from = askers[0] as number): Promise<RateLease> =>
    net.node(from).bus.ask({ kind: "limiter", key }, "lease", { want });
  return {
    sim,
    disk,
    net,
    ask,
    counted,
    holders,
    lease: (key: string, want = 1, from?: number) => sim.until(ask(key, want, from)),
    /** Asks until nothing is left; returns the number of requests. */
    async empty(key: string, want = 1_000_000): Promise<number> {
      let taken = 0;
      for (;;) {
        const { granted } = await sim.until(ask(key, want));
        if (granted === 0) return taken;
        taken += granted;
      }
    },
    size: () => actorNodes.reduce((sum, node) => sum + net.node(node).host.size, 0),
    home: () => actorNodes.find((node) => net.node(node).host.size > 0) as number,
    drain: () => sim.until(Promise.all([...holders].map((holder) => holder.leave()))),
    /** Makes the store refuse writes. */
    refuseWrites(refused: boolean): void {
      for (const store of stores) store.refused = refused ? "rate_bucket_change" : null;
    },
    /** The stored state of a bucket, in whole requests. */
    level(key: string): { taken: number; slices: { held: number }[] } {
      const [row] = disk.query("SELECT state FROM rate_buckets WHERE bucket = ?", key);
      if (!row) return { taken: 0, slices: [] };
      const { level, windowMs, slices } = JSON.parse(row.state as string);
      return { taken: Math.round(level / windowMs), slices };
    },
  };
}

type World = Awaited<ReturnType<typeof world>>;

/** The process ends without warning, and another one replaces it. */
async function killed(before: World, rateLimit: number, windowSeconds: number): Promise<World> {
  for (const node of [...actorNodes, ...askers]) {
    before.net.node(node).env.end();
    before.net.node(node).host.close();
  }
  return world(rateLimit, windowSeconds, { sim: before.sim, disk: before.disk, host: "next" });
}

describe("one process", () => {
  test("a full bucket grants its limit and nothing more", async () => {
    for (const limit of [1, 2, 5, 63, 64, 120, 640]) {
      const { empty, lease } = await world(limit, 86_400);

      assert.equal(await empty("acme"), limit);
      assert.equal((await lease("acme", 1_000_000)).granted, 0);
    }
  });

  test("a refused caller passes at the announced time, and not a second earlier", async () => {
    const { sim, lease, empty } = await world(3, 60);
    await empty("acme");
    const { retryAfterSeconds } = await lease("acme");

    await sim.advance((retryAfterSeconds - 1) * 1000);
    const early = await lease("acme");
    await sim.advance(1000);
    const told = await lease("acme");

    assert.equal(retryAfterSeconds, 20);
    assert.deepEqual(early, { granted: 0, forMs: 0, retryAfterSeconds: 1 });
    assert.deepEqual(told, { granted: 1, forMs: 0, retryAfterSeconds: 0 });
  });

  for (const seed of [1, 2, 3, 4, 5])
    test(`many concurrent callers get exactly the refill (seed ${seed})`, async () => {
      const [limit, windowSeconds, seconds] = [90, 30, 300];
      const { sim, ask } = await world(limit, windowSeconds, { seed });
      const begin = sim.now;
      let taken = 0;
      let refused = 0;
      const demand = async (): Promise<void> => {
        const from = askers[sim.int(askers.length)] as number;
        const { granted, retryAfterSeconds } = await ask("acme", 1, from);
        taken += granted;
        if (granted === 0) refused++;
        // The answer comes later than the grant, so this bound can only be too generous.
        assert.ok(
          taken <= limit + ((sim.now - begin) / 1000) * (limit / windowSeconds),
          `${taken} at ${sim.now - begin}`,
        );
        assert.ok(retryAfterSeconds <= 1);
      };

      for (let step = 0; step < seconds * 4; step++) {
        const asked = Array.from({ length: 1 + sim.int(6) }, demand);
        await sim.advance(250);
        await sim.until(Promise.all(asked));
      }

      const brought = limit + Math.floor(((sim.now - begin) / 1000) * (limit / windowSeconds));
      assert.ok(taken >= brought - 6, `${taken} of ${brought}`);
      assert.ok(refused > 100, `${refused} refused`);
    });

  test("tenants, and addresses without a tenant, have separate buckets", async () => {
    const { lease, empty } = await world(70, 3600);

    assert.equal(await empty("acme"), 70);

    assert.equal((await lease("acme")).granted, 0);
    assert.equal((await lease("globex")).granted, 1);
    assert.equal(await empty("address/192.0.2.1"), 70);
    assert.equal(await empty("globex"), 69);
  });

  test("every thread uses the same bucket", async () => {
    const { lease } = await world(6, 3600);

    const granted: number[] = [];
    for (const from of [...askers, ...askers, ...askers]) granted.push((await lease("acme", 1000, from)).granted);

    assert.deepEqual(granted, [1, 1, 1, 1, 1, 1, 0, 0, 0]);
  });

  test("a burst of thousands from all threads is counted exactly, in a few store writes", async () => {
    const { sim, ask, counted, empty } = await world(10_000, 86_400);

    const asked = Array.from({ length: 4_000 }, (_, at) => ask("acme", 1, askers[at % askers.length]));
    const leases = await sim.until(Promise.all(asked));

    assert.ok(leases.every(({ granted }) => granted === 1));
    assert.ok(counted.writes < 40, `${counted.writes} writes`);
    const left = await empty("acme");
    assert.ok(left >= 6_000 && left <= 6_005, `${left}`);
  });

  test("a prefetch of all that is left takes nothing from waiting callers", async () => {
    const { sim, ask, counted, level } = await world(200, 86_400);

    const leases = await sim.until(Promise.all(Array.from({ length: 200 }, () => ask("acme", 1_024))));

    assert.ok(leases.every(({ granted, forMs }) => granted === 1 && forMs === 0));
    assert.deepEqual([counted.writes, level("acme").taken], [1, 200]);
  });

  test("a busy caller writes once for many requests, an idle or refused one never", async () => {
    const { sim, lease, counted, empty, level } = await world(120, 60);
    for (let request = 0; request < 60; request++) {
      await lease("busy");
      await sim.advance(1_000);
    }
    const busy = counted.writes;
    await lease("quiet");
    await sim.advance(40_000);
    const quiet = level("quiet");
    await empty("empty");
    const before = counted.writes;
    for (let request = 0; request < 50; request++) assert.equal((await lease("empty")).granted, 0);

    assert.ok(busy <= 20, `${busy} writes for 60 requests`);
    assert.deepEqual([quiet.taken, quiet.slices], [1, []]);
    assert.equal(counted.writes, before);
  });

  test("a prefetch from a full bucket has a duration and at most a sixty-fourth of it", async () => {
    const { lease } = await world(1_000_000, 60);
    let most = { granted: 0, forMs: 0 };

    for (let request = 0; request < 3_000; request++) {
      const got = await lease("acme", 1_024);
      if (got.granted > most.granted) most = got;
    }

    assert.ok(most.granted > 20 && most.granted <= 1_024, `${most.granted}`);
    assert.ok(most.forMs > 0 && most.forMs <= 1_000);
  });
});

describe("the usage of a day survives the actor that counted it", () => {
  test("a limiter that is idle for five minutes leaves memory and returns unchanged", async () => {
    const { sim, lease, empty, size, level } = await world(50, 86_400);
    for (let request = 0; request < 20; request++) await lease("acme");
    await sim.advance(passivateMs);
    assert.equal(size(), 0);
    assert.equal(level("acme").taken, 20);

    const left = await empty("acme");

    // Five minutes bring a sixth of a request.
    assert.equal(left, 30);
    await sim.advance(passivateMs);
    assert.equal(size(), 0);
    const refused = await lease("acme");
    assert.equal(refused.granted, 0);
    assert.ok(refused.retryAfterSeconds > 0 && refused.retryAfterSeconds <= 86_400 / 50);
  });

  test("one request in ten minutes costs one request", async () => {
    const { sim, lease, disk } = await world(10, 86_400);

    let passed = 0;
    for (let request = 0; request < 14; request++) {
      passed += (await lease("acme")).granted;
      await sim.advance(600_000);
    }

    // Fourteen times ten minutes bring 0.97 of a request.
    assert.equal(passed, 10);
    assert.equal(disk.query("SELECT bucket FROM rate_buckets").length, 1);
  });

  test("unspent requests are returned before the prefetch ends", async () => {
    const { sim, lease, level } = await world(6_400, 86_400);
    for (let request = 0; request < 40; request++) await lease("acme");
    const held = level("acme");

    await sim.advance(9_000);

    assert.ok(held.taken > 40, `${held.taken}`);
    // Nine seconds bring two thirds of a request.
    assert.deepEqual(level("acme"), { taken: 39, slices: [] });
  });

  test("a process that ends returns all requests, and the next one continues the count", async () => {
    const before = await world(100, 86_400);
    for (let request = 0; request < 10; request++) await before.lease("acme");
    assert.ok(before.level("acme").slices.length > 0);

    await before.drain();
    const held = before.level("acme");
    const next = await killed(before, 100, 86_400);

    assert.deepEqual([held.taken, held.slices], [10, []]);
    assert.equal(await next.empty("acme"), 90);
  });

  test("a killed process has spent exactly its prefetch", async () => {
    const before = await world(100, 86_400);
    for (let request = 0; request < 10; request++) await before.lease("acme");
    const { taken } = before.level("acme");

    const next = await killed(before, 100, 86_400);
    const left = await next.empty("acme");

    assert.ok(taken >= 10 && taken <= 10 + 16, `${taken}`);
    assert.equal(left, 100 - taken);
    await before.sim.advance(20_000);
    assert.equal((await next.lease("acme")).granted, 0);
  });

  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8])
    test(`processes killed at any moment stay within the limit together (seed ${seed})`, async () => {
      const [limit, windowSeconds] = [60, 86_400];
      let one = await world(limit, windowSeconds, { seed });
      const { sim } = one;
      const begin = sim.now;
      let passed = 0;

      for (let round = 0; round < 12; round++) {
        const asking = one;
        const asked = Array.from({ length: 1 + sim.int(12) }, () =>
          asking.ask("acme", 1, askers[sim.int(3)]).then(
            ({ granted }) => {
              passed += granted;
            },
            () => {},
          ),
        );
        if (sim.int(2) === 0) await sim.advance(sim.int(40));
        else await sim.until(Promise.all(asked));
        await sim.advance(sim.int(5_000));
        one = await killed(one, limit, windowSeconds);
      }
      passed += await one.empty("acme");

      const brought = limit + ((sim.now - begin) / 1000) * (limit / windowSeconds);
      assert.ok(passed <= brought, `${passed} of ${brought}`);
      assert.equal((await one.lease("acme")).granted, 0);
    });

  test("a bucket lost with its thread is found again, and every ask ends", async () => {
    const { sim, net, ask, empty, home } = await world(50, 86_400, { seed: 9 });
    await empty("acme");

    const asked = Array.from({ length: 20 }, () => outcomeOf(ask("acme", 1)));
    net.kill(home());
    const outcomes = await sim.until(Promise.all(asked));
    await sim.advance(1_000);

    for (const outcome of outcomes)
      assert.ok("refused" in outcome ? outcome.refused === "actor_lost" : outcome.answer.granted === 0);
    assert.equal(await empty("acme"), 0);
  });

  test("a bucket without usage has no row", async () => {
    const { sim, lease, disk } = await world(10, 3_600);
    await lease("acme");
    await sim.advance(400_000);
    const rows = () => disk.query("SELECT full_at FROM rate_buckets");
    const [{ full_at } = { full_at: 0 }] = rows();

    // The store compares with its real clock, long after the simulated time.
    const deleted = await sim.until(deleteFullBuckets(disk.store(sim, sim.env()).system, 500));

    assert.ok((full_at as number) >= 1_700_000_000_000 + 360_000 && (full_at as number) < 1_700_000_000_000 + 362_000);
    assert.deepEqual([deleted, rows().length], [1, 0]);
    assert.equal((await lease("acme")).granted, 1);
  });
});

describe("several processes on one store", () => {
  for (const seed of [1, 2, 3, 4, 5, 6])
    test(`together they grant the refill, never more, and nearly all of it (seed ${seed})`, async () => {
      const [limit, windowSeconds, seconds] = [300, 60, 240];
      const one = await world(limit, windowSeconds, { seed, host: "one" });
      const two = await world(limit, windowSeconds, { sim: one.sim, disk: one.disk, host: "two" });
      const { sim } = one;
      const begin = sim.now;
      let taken = 0;
      let refused = 0;
      const demand = async (): Promise<void> => {
        const process = sim.int(2) === 0 ? one : two;
        const { granted } = await process.ask("acme", 1, askers[sim.int(askers.length)]);
        taken += granted;
        if (granted === 0) refused++;
        assert.ok(taken <= limit + ((sim.now - begin) / 1000) * (limit / windowSeconds), `${taken}`);
      };

      for (let step = 0; step < seconds * 4; step++) {
        const asked = Array.from({ length: sim.int(8) }, demand);
        await sim.advance(250);
        await sim.until(Promise.all(asked));
      }

      const brought = limit + ((sim.now - begin) / 1000) * (limit / windowSeconds);
      assert.ok(refused > 50, `${refused} refused`);
      assert.ok(taken >= brought * 0.97, `${taken} of ${brought}`);
    });

  test("one of two callers that race for the last request gets it", async () => {
    const one = await world(1, 86_400, { host: "one" });
    const two = await world(1, 86_400, { sim: one.sim, disk: one.disk, host: "two" });

    const leases = await one.sim.until(Promise.all([one.ask("acme", 1), two.ask("acme", 1)]));

    assert.deepEqual(leases.map(({ granted }) => granted).sort(), [0, 1]);
    assert.equal(Math.max(...leases.map(({ retryAfterSeconds }) => retryAfterSeconds)), 86_400);
  });

  test("requests that one returns are available to the other at once", async () => {
    const one = await world(20, 86_400, { host: "one" });
    const two = await world(20, 86_400, { sim: one.sim, disk: one.disk, host: "two" });
    for (let request = 0; request < 5; request++) await one.lease("acme");
    const first = await two.empty("acme");

    await one.sim.advance(9_000);
    const second = await two.empty("acme");

    assert.deepEqual([first, second], [14, 1]);
  });
});

describe("a failing store", () => {
  test("the rate is counted in memory, reported later, and never over the limit", async () => {
    const { sim, lease, empty, refuseWrites, counted, level } = await world(30, 86_400);
    for (let request = 0; request < 10; request++) await lease("acme");
    await sim.advance(9_000);
    refuseWrites(true);

    const unasked = await empty("acme");
    const refused = await lease("acme");
    const { degraded } = counted;
    const during = level("acme").taken;
    refuseWrites(false);
    await sim.advance(5_000);

    assert.equal(unasked, 20);
    assert.equal(refused.granted, 0);
    assert.ok(degraded > 0);
    assert.equal(during, 10);
    assert.ok(level("acme").taken === 30, `${level("acme").taken}`);
    assert.equal(await empty("acme"), 0);
  });

  test("a bucket of unknown state grants nothing", async () => {
    const { sim, ask, lease, refuseWrites, counted } = await world(30, 86_400);
    refuseWrites(true);

    const outcome = await sim.until(outcomeOf(ask("acme", 1)));
    refuseWrites(false);
    await sim.advance(2_000);

    assert.ok("refused" in outcome || outcome.answer.granted === 1, JSON.stringify(outcome));
    assert.equal((await lease("acme")).granted, 1);
    assert.ok(counted.degraded <= 1);
  });

  test("requests that passed without the store still count after an idle time", async () => {
    const { sim, lease, refuseWrites, size, level } = await world(30, 86_400);
    await lease("acme");
    refuseWrites(true);
    await lease("acme");
    await sim.advance(passivateMs);
    assert.equal(size(), 1);

    refuseWrites(false);
    await sim.advance(passivateMs);

    assert.equal(size(), 0);
    assert.ok(level("acme").taken === 2, `${level("acme").taken}`);
  });
});
