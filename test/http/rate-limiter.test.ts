// What an http thread keeps of the rate limit: leases of callers, and of so many callers and no more.
import assert from "node:assert/strict";
import { test } from "node:test";
import { limiterActor } from "../../actors/limiter/limiter-actor.ts";
import { RateLimiter } from "../../http/middleware/rate-limit.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

function start(rateLimit: number) {
  const sim = new Sim(1);
  const deps = { settings: { rateLimit, rateLimitWindowSeconds: 3600 } };
  const net = new SimNet(sim, { actorNodes: [0], definitions: [limiterActor], deps });
  return { sim, limiter: new RateLimiter(net.node(0).bus, true) };
}

test("a lease is spent without asking, to its last request, and then another is asked for", async () => {
  const { sim, limiter } = start(6_400);
  await sim.until(limiter.take("acme") as Promise<void>);

  for (let spent = 1; spent < 100; spent++) assert.equal(limiter.take("acme"), null, `request ${spent + 1}`);
  const asked = limiter.take("acme");

  assert.ok(asked instanceof Promise);
  await sim.until(asked);
});

test("leases that two requests have asked for at the same time are both there to be spent", async () => {
  const { sim, limiter } = start(6_400);
  const [first, second] = [limiter.take("acme"), limiter.take("acme")] as Promise<void>[];
  await sim.until(Promise.all([first, second]));

  let spent = 0;
  while (limiter.take("acme") === null) spent++;

  assert.equal(spent, 100 + Math.floor(6_300 / 64) - 2);
});

test("leases of 50,000 callers are kept; one caller more, and all of them ask again", async () => {
  const { sim, limiter } = start(6_400);
  const callers = Array.from({ length: 50_000 }, (_, at) => `caller-${at}`);
  for (let at = 0; at < callers.length; at += 5_000)
    await sim.until(Promise.all(callers.slice(at, at + 5_000).map((caller) => limiter.take(caller))));

  assert.equal(limiter.take("caller-0"), null);
  await sim.until(limiter.take("one-more") as Promise<void>);

  assert.equal(limiter.take("one-more"), null);
  const asked = limiter.take("caller-0");
  assert.ok(asked instanceof Promise);
  await sim.until(asked);
});

test("who gets no lease is refused, and told when to come back", async () => {
  const { sim, limiter } = start(1);
  await sim.until(limiter.take("acme") as Promise<void>);

  const refused = limiter.take("acme") as Promise<void>;

  await assert.rejects(sim.until(refused), { code: "rate_limited", details: { retryAfterSeconds: 3600 } });
});
