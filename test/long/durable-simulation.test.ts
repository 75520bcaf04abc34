import { test } from "node:test";
import { assertSound, liveSeeds } from "../support/sim-durable-worlds.ts";

test("DUR-008 1,000 seeded worlds of durable runs end each run once", async () => {
  const { failed } = await liveSeeds(1, 1_000);

  assertSound(failed);
});
