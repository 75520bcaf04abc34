// Durable runs on two and three simulated hosts, whose real links lie over a network that delays, loses, repeats and
// reorders entries and is cut. SVC_TEST_SEED runs one seed alone, SVC_TEST_SEEDS sets their number; `npm run test:long`
// runs a thousand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertSound, liveSeeds, liveWorlds } from "../../support/sim-durable-worlds.ts";

const only = Number(process.env.SVC_TEST_SEED ?? 0);
const seeds = Number(process.env.SVC_TEST_SEEDS ?? 12);

for (const hosts of [2, 3])
  test(`LEASE-008 seeded worlds of ${hosts} hosts in a bad network end each run once`, async () => {
    const { failed, seen } = await liveSeeds(only || 1, only || seeds, { hosts });

    assertSound(failed);
    if (only > 0) return;
    for (const what of [
      ...["an entry is lost", "an entry is repeated", "an entry is overtaken", "a connection is held up"],
      ...["a host knows that it is cut off", "two hosts are parted", "a host is cut off from the database"],
      ...["accepted", "answered", "one of two crashed", "one of two was taken for gone", "ends completed"],
    ])
      assert.ok(seen.includes(what), `no seed has met "${what}": ${seen}`);
  });

test("LEASE-008 a thread outlives the host on which its run works", { skip: only > 0 }, async () => {
  // In this world a run works on another host than its thread, whose host sees it end.
  const seed = 138;

  assertSound((await liveWorlds({ from: seed, to: seed, bug: null, hosts: 2 })).failed);
});

test("STREAM-022 a host whose claim came too late repeats no event of the host that was earlier", {
  skip: only > 0,
}, async () => {
  // In this world a host takes a thread on which another host has worked since it loaded it, while the disk is full now and then.
  const seed = 54;

  assertSound((await liveWorlds({ from: seed, to: seed, bug: "the disk is full now and then", hosts: 3 })).failed);
});

for (const bug of ["two answers of one wait are taken", "a batch is acknowledged before it is durable"])
  test(`DUR-008 a world in a bad network finds that ${bug}`, { skip: only > 0 }, async () => {
    const { failed } = await liveWorlds({ from: 8, to: 60, bug, hosts: 3 });

    assert.ok(failed !== null, "no seed has found it");
    assert.equal(failed.again, failed.message);
  });
