// Durable runs on two and three simulated hosts, whose real links lie over a network that delays, loses, repeats and
// reorders entries and is cut. SVC_TEST_SEED runs one seed alone, SVC_TEST_SEEDS sets their number.
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertSound, liveSeeds } from "../../support/sim-durable-worlds.ts";

const only = Number(process.env.SVC_TEST_SEED ?? 0);
const seeds = Number(process.env.SVC_TEST_SEEDS ?? 30);

for (const hosts of [2, 3])
  test(`DUR-008 LEASE-008 seeded worlds of ${hosts} hosts in a network end each run once`, async () => {
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
