import assert from "node:assert/strict";
import { test } from "node:test";
import { lostBackOffMs, lostMax } from "../../../actors/log/lost-steps.ts";

test("DUR-012 a lost step resumes at once three times, then ever later, then dies", () => {
  const waits = Array.from({ length: lostMax }, (_, lost) => lostBackOffMs(lost));

  assert.deepEqual(waits.slice(0, 3), [0, 0, 0]);
  assert.deepEqual(
    waits.slice(3, 13),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300].map((s) => s * 1_000),
  );
  assert.equal(waits.at(-1), 0);
  assert.ok(
    waits.reduce((sum, ms) => sum + ms, 0) > 30 * 60_000,
    "a loop of crashes of half an hour kills no bystander",
  );
});
