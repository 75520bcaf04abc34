// Durable runs under all events: the real thread, run, durable and delivery actors and SQLite on the simulated clock.
// SVC_TEST_SEED runs one seed alone, SVC_TEST_SEEDS sets their number; `npm run test:long` runs a thousand.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { faults, plantedBugs } from "../../support/planted-bugs.ts";
import { assertSound, liveSeeds, liveWorlds } from "../../support/sim-durable-worlds.ts";

const only = Number(process.env.SVC_TEST_SEED ?? 0);
const seeds = Number(process.env.SVC_TEST_SEEDS ?? 100);
/** More seeds than any planted bug needs. */
const bugSeeds = 200;
/** The first seeds of bugs that few worlds or long worlds meet, as in a world that never rests. */
const firstSeeds: Readonly<Record<string, number>> = {
  "a run that was lost is not due": 32,
  "an end is told of behind its batch": 11,
  "a call that may be made once is made again": 12,
  "a host whose lease has lapsed stays among the others": 6,
  "a task is begun beside as many as may be": 25,
};

/** Seeds beyond the first hundred that have found a real defect. */
const onceFound: Readonly<Record<string, number>> = { "the answer of the database is lost now and then": 345 };

test("DUR-008 seeded worlds of durable runs end each run once", async () => {
  const { failed, seen } = await liveSeeds(only || 1, only || seeds);

  assertSound(failed);
  if (only > 0) return;
  for (const what of [
    ...["accepted", "run_in_progress", "answered", "nobody came", "approved pays", "denied pays", "aborted"],
    ...["crashed", "stalled", "read again", "idempotent again", "sent again"],
    ...["ends completed", "ends failed", "ends dead"],
    ...["one of two crashed", "one of two was taken for gone", "beside", "a task's end", "a tree at its limit"],
  ])
    assert.ok(seen.includes(what), `no seed has met "${what}": ${seen}`);
  assert.ok(
    seen.some((what) => what.includes("outcome")),
    `no seed has met a call of which nobody knows: ${seen}`,
  );
});

for (const fault of Object.keys(faults))
  test(`DUR-008 the same where ${fault}`, async () => {
    const { failed } = await liveSeeds(only || 1, only || seeds, { fault });
    const found = onceFound[fault];
    const again = found === undefined ? null : await liveWorlds({ from: found, to: found, bug: fault });

    assertSound(failed ?? again?.failed ?? null);
  });

describe("planted bugs", { concurrency: 2, skip: only > 0 }, () => {
  for (const name of Object.keys(plantedBugs))
    test(`DUR-008 a seed finds it, and finds it again, when ${name}`, async (t) => {
      const from = firstSeeds[name] ?? 1;
      const { failed } = await liveWorlds({ from, to: from + bugSeeds, bug: name });

      assert.ok(failed !== null, `${bugSeeds} seeds have not found it`);
      const { seed, message, again } = failed;
      t.diagnostic(`seed ${seed}: ${message.split("\n")[0]}`);
      assert.equal(again, message);
    });
});
