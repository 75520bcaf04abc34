// The rate limit on an HTTP thread: it holds prefetched requests of callers, for a limited time and a limited number of
// callers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineActor } from "../../actors/runtime/define.ts";
import type { RateLease } from "../../bus/protocol/limiter.ts";
import { addressCaller } from "../../http/middleware/address-caller.ts";
import { RateLimiter } from "../../http/middleware/rate-limit.ts";
import { SimNet } from "../support/sim-bus.ts";
import { Sim } from "../support/sim-env.ts";

/** A limiter with plenty to grant, which answers as the test says. */
function start(lease: RateLease = { granted: 100, forMs: 1_000, retryAfterSeconds: 0 }) {
  const sim = new Sim(1);
  const asked: { key: string; want: number }[] = [];
  const lender = defineActor<"limiter", null, unknown>({
    kind: "limiter",
    mailboxLimit: 10_000,
    interleaves: [],
    reserved: [],
    passivateAfterMs: 1_000_000,
    load: () => null,
    idle: () => true,
    crashed: () => {},
    on: {
      lease: (_state, { want }, { key }) => {
        asked.push({ key, want });
        return lease;
      },
    },
  });
  const net = new SimNet(sim, { actorNodes: [0], definitions: [lender] });
  const { env, bus } = net.node(0);
  return { sim, asked, limiter: new RateLimiter(env, bus, true) };
}

test("a lease is spent without asking, to its last request, then another is requested", async () => {
  const { sim, asked, limiter } = start();
  await sim.until(limiter.take("acme") as Promise<void>);

  for (let spent = 1; spent < 100; spent++) assert.equal(limiter.take("acme"), null, `request ${spent + 1}`);
  const next = limiter.take("acme");

  assert.ok(next instanceof Promise);
  await sim.until(next);
  assert.deepEqual(asked, Array(2).fill({ key: "acme", want: 1024 }));
});

test("unused prefetched requests expire", async () => {
  const { sim, asked, limiter } = start();
  await sim.until(limiter.take("acme") as Promise<void>);

  await sim.advance(900);
  assert.equal(limiter.take("acme"), null);
  await sim.advance(100);
  const next = limiter.take("acme");

  assert.ok(next instanceof Promise);
  await sim.until(next);
  assert.equal(asked.length, 2);
});

test("leases that two concurrent requests obtained can both be spent", async () => {
  const { sim, limiter } = start();
  const [first, second] = [limiter.take("acme"), limiter.take("acme")] as Promise<void>[];
  await sim.until(Promise.all([first, second]));

  let spent = 0;
  while (limiter.take("acme") === null) spent++;

  assert.equal(spent, 198);
});

test("each request asks if single requests are granted", async () => {
  const { sim, asked, limiter } = start({ granted: 1, forMs: 0, retryAfterSeconds: 0 });

  for (let request = 0; request < 3; request++) await sim.until(limiter.take("acme") as Promise<void>);

  assert.equal(asked.length, 3);
});

test("leases of 50,000 callers are cached; with one more the cache is cleared", async () => {
  const { sim, limiter } = start({ granted: 100, forMs: 1_000_000, retryAfterSeconds: 0 });
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

test("a caller without a grant is refused with a time to retry", async () => {
  const { sim, limiter } = start({ granted: 0, forMs: 0, retryAfterSeconds: 3600 });

  const refused = limiter.take("acme") as Promise<void>;

  await assert.rejects(sim.until(refused), { code: "rate_limited", details: { retryAfterSeconds: 3600 } });
});

for (const [address, caller] of [
  ["192.0.2.7", "192.0.2.7"],
  ["192.0.2.7:51234", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0db8:0001:0002:0000:0000:0000:0009", "2001:db8:1:2::/64"],
  ["2001:DB8:1:2::9", "2001:db8:1:2::/64"],
  ["[2001:DB8:1:2::9]:443", "2001:db8:1:2::/64"],
  ["[2001:db8:1:2::9]", "2001:db8:1:2::/64"],
  ["2001:db8::9", "2001:db8:0:0::/64"],
  ["2001:db8:1:2::9:443", "2001:db8:1:2::/64"],
  ["::1", "0:0:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["[fe80::1%eth0]:65535", "fe80:0:0:0::/64"],
  ["64:ff9b::192.0.2.7", "64:ff9b:0:0::/64"],
  ["::ffff:192.0.2.7", "192.0.2.7"],
  ["::FFFF:192.0.2.7", "192.0.2.7"],
  ["[::ffff:192.0.2.7]:1", "192.0.2.7"],
  ["::ffff:192.0.2.7%eth0", "192.0.2.7"],
  ["0000:0000:0000:0000:0000:ffff:192.0.2.7", "192.0.2.7"],
  ["0000:0000:0000:0000:0000:ffff:c000:0207", "192.0.2.7"],
  ["::ffff:c000:207", "192.0.2.7"],
  ["for=192.0.2.7", "192.0.2.7"],
  ["for=192.0.2.7;proto=https;by=203.0.113.1", "192.0.2.7"],
  ['proto=https; For="[2001:db8:1:2::9]:4711"', "2001:db8:1:2::/64"],
] as const)
  test(`the address ${JSON.stringify(address)} counts as ${JSON.stringify(caller)}`, () => {
    assert.equal(addressCaller(address, "198.51.100.1"), `address/${caller}`);
  });

for (const told of [
  ...[
    "",
    "unknown",
    "not an address",
    "192.0.2",
    "192.0.2.07",
    "192.0.2.7:",
    "192.0.2.7:123456",
    "192.0.2.7:1:2",
    "[192.0.2.7]:80",
  ],
  ...[
    "[2001:db8::9",
    "2001:db8::9]:443",
    "[]",
    "[]:443",
    "[2001:db8::9]443",
    "[2001:db8::9%]x",
    ":443",
    "[[::1]]",
    "a".repeat(8_192),
    "for=unknown",
    "for=_hidden;proto=https",
    "by=192.0.2.7",
    `${"for=;".repeat(1_000)}for`,
  ],
])
  test(`a proxy value ${JSON.stringify(told.slice(0, 20))} is no address, so the connection counts`, () => {
    assert.equal(addressCaller(told, "::ffff:198.51.100.1"), "address/198.51.100.1");
  });
