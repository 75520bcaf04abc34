import assert from "node:assert/strict";
import { test } from "node:test";
import { chaosOf } from "../support/chaos.ts";

for (const [runs, kills] of [
  [300, 100],
  [3_000, 1_000],
] as const)
  test(`DUR-008 ${runs} durable runs keep every promise while their server is killed ${kills} times`, async (t) => {
    const { code, answer } = await chaosOf(["--runs", String(runs), "--kills", String(kills), "--seed", "1"]);

    t.diagnostic(JSON.stringify(answer));
    assert.deepEqual([code, answer.runs, answer.kills], [0, runs, kills], JSON.stringify(answer.invariants));
  });
