import { test } from "node:test";
import { faults } from "../support/planted-bugs.ts";
import { assertSound, liveSeeds } from "../support/sim-durable-worlds.ts";

test("DUR-008 1,000 seeded worlds of durable runs end each run once", async () => {
  const { failed } = await liveSeeds(1, 1_000);

  assertSound(failed);
});

for (const hosts of [2, 3]) {
  test(`LEASE-008 1,000 worlds of ${hosts} hosts in a bad network end each run once`, async () => {
    const { failed } = await liveSeeds(1, 1_000, { hosts });

    assertSound(failed);
  });

  for (const fault of Object.keys(faults))
    test(`LEASE-008 300 worlds of ${hosts} hosts in a bad network where ${fault}`, async () => {
      const { failed } = await liveSeeds(1, 300, { hosts, fault });

      assertSound(failed);
    });
}
