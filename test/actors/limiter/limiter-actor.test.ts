// Limiters as threads meet them: over the bus, in simulated time, many asking at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { limiterActor } from "../../../actors/limiter/limiter-actor.ts";
import { sweepMs } from "../../../actors/runtime/idle-sweep.ts";
import type { RateLease } from "../../../bus/protocol/limiter.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { SimNet } from "../../support/sim-bus.ts";
import { Sim } from "../../support/sim-env.ts";

const actorNodes = [0, 1];
/** Threads that take requests. */
const askers = [2, 3, 4];

function world(rateLimit: number, rateLimitWindowSeconds: number, seed = 1) {
  const sim = new Sim(seed);
  const deps = { settings: { rateLimit, rateLimitWindowSeconds } };
  const net = new SimNet(sim, { actorNodes, otherNodes: askers, definitions: [limiterActor], deps });
  const ask = (key: string, want: number, from = askers[0] as number): Promise<RateLease> =>
    net.node(from).bus.ask({ kind: "limiter", key }, "lease", { want });
  return {
    sim,
    net,
    ask,
    lease: (key: string, want: number, from?: number) => sim.until(ask(key, want, from)),
    /** Asks one after another until nothing is left; how much that was. */
    async empty(key: string): Promise<number> {
      let taken = 0;
      for (;;) {
        const { granted } = await sim.until(ask(key, 1_000_000));
        if (granted === 0) return taken;
        taken += granted;
      }
    },
    size: () => actorNodes.reduce((sum, node) => sum + net.node(node).host.size, 0),
  };
}

test("a full bucket gives its limit and nothing more, in leases that shrink to one", async () => {
  const { sim, ask, lease } = world(640, 86_400);
  const granted: number[] = [];

  for (let left = 640; left > 0; left -= granted.at(-1) ?? 0)
    granted.push((await sim.until(ask("acme", 1_000_000))).granted);
  const after = await lease("acme", 1_000_000);

  assert.equal(
    granted.reduce((sum, lease) => sum + lease, 0),
    640,
  );
  assert.equal(granted[0], 10);
  assert.deepEqual(
    granted,
    granted.toSorted((a, b) => b - a),
  );
  assert.deepEqual(granted.slice(-127), Array(127).fill(1));
  assert.equal(after.granted, 0);
});

test("who is told to come back gets in then, and not a second before", async () => {
  const { sim, lease, empty } = world(3, 60);
  await empty("acme");
  const { retryAfterSeconds } = await lease("acme", 1);

  await sim.advance((retryAfterSeconds - 1) * 1000);
  const early = await lease("acme", 1);
  await sim.advance(1000);
  const told = await lease("acme", 1);

  assert.equal(retryAfterSeconds, 20);
  assert.deepEqual(early, { granted: 0, retryAfterSeconds: 1 });
  assert.deepEqual(told, { granted: 1, retryAfterSeconds: 0 });
});

for (const seed of [1, 2, 3, 4, 5])
  test(`many askers together get what time brings, never more and never less (seed ${seed})`, async () => {
    const [limit, windowSeconds, seconds] = [90, 30, 300];
    const { sim, ask } = world(limit, windowSeconds, seed);
    const begin = sim.now;
    let taken = 0;
    let soonest = 0;
    let refused = 0;
    const demand = async (): Promise<void> => {
      const from = askers[sim.int(askers.length)] as number;
      const { granted, retryAfterSeconds } = await ask("acme", 1 + sim.int(40), from);
      taken += granted;
      if (granted === 0) refused++;
      // The answer comes later than the grant, so this bound can only be too generous to the limiter.
      assert.ok(
        taken <= limit + ((sim.now - begin) / 1000) * (limit / windowSeconds),
        `${taken} at ${sim.now - begin}`,
      );
      soonest = Math.max(soonest, retryAfterSeconds);
    };

    for (let step = 0; step < seconds * 4; step++) {
      const asked = Array.from({ length: 1 + sim.int(6) }, demand);
      await sim.advance(250);
      await sim.until(Promise.all(asked));
    }

    const brought = limit + Math.floor(((sim.now - begin) / 1000) * (limit / windowSeconds));
    assert.ok(taken >= brought - 3, `${taken} of ${brought}`);
    assert.ok(refused > 100, `${refused} refused`);
    assert.equal(soonest, 1);
  });

test("tenants, and addresses without a tenant, have buckets of their own", async () => {
  const { lease, empty } = world(70, 3600);

  assert.equal(await empty("acme"), 70);

  assert.equal((await lease("acme", 1)).granted, 0);
  assert.equal((await lease("globex", 1)).granted, 1);
  assert.equal(await empty("ip:192.0.2.1"), 70);
  assert.equal(await empty("globex"), 69);
});

test("every thread meets the same bucket", async () => {
  const { lease } = world(6, 3600);

  const granted: number[] = [];
  for (const from of [...askers, ...askers, ...askers]) granted.push((await lease("acme", 1000, from)).granted);

  assert.deepEqual(granted, [1, 1, 1, 1, 1, 1, 0, 0, 0]);
});

test("a limiter that nobody asks for five minutes leaves memory, and comes back full", async () => {
  const { sim, lease, empty, size } = world(5, 86_400);
  await empty("acme");

  await sim.advance(299_000);
  assert.equal(size(), 1);
  const still = await lease("acme", 1);
  await sim.advance(299_000);
  assert.equal(size(), 1);
  await sim.advance(1_000 + 2 * sweepMs);
  assert.equal(size(), 0);
  const anew = await empty("acme");

  assert.equal(still.granted, 0);
  assert.equal(anew, 5);
});

test("a burst of thousands from every thread is counted one by one", async () => {
  const { sim, ask, lease } = world(10_000, 86_400);

  const asked = Array.from({ length: 5_000 }, (_, at) => ask("acme", 1, askers[at % askers.length]));
  const leases = await sim.until(Promise.all(asked));
  const next = await lease("acme", 1_000_000);

  assert.ok(leases.every(({ granted }) => granted === 1));
  assert.equal(next.granted, Math.floor(5_000 / 64));
});

test("a bucket that is lost with its thread begins anew on the next, and no ask stays without an end", async () => {
  const { sim, net, ask, empty } = world(50, 86_400, 9);
  await empty("acme");
  const home = actorNodes.find((node) => net.node(node).host.size === 1) as number;

  const asked = Array.from({ length: 20 }, () => outcomeOf(ask("acme", 1)));
  net.kill(home);
  const outcomes = await sim.until(Promise.all(asked));
  await sim.advance(1_000);
  const anew = await empty("acme");

  for (const outcome of outcomes)
    assert.ok("refused" in outcome ? outcome.refused === "actor_lost" : outcome.answer.granted <= 1);
  assert.ok(anew > 50 - 20 && anew <= 50, `${anew}`);
});
