// A thread under all events: the real thread and run actors and SQLite on the simulated clock.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConversationsAsked, ConversationsSeen } from "../../support/sim-conversation-worker.ts";
import { SimThreads } from "../../support/sim-threads.ts";

/** SVC_TEST_SEED runs one seed alone. */
const only = Number(process.env.SVC_TEST_SEED ?? 0);
const seeds = Number(process.env.SVC_TEST_SEEDS ?? 1_000);
/** The number that a thread holds before it is asked for more. */
const seedsEach = 250;

const threads = new SimThreads<ConversationsAsked, ConversationsSeen>(
  new URL("../../support/sim-conversation-worker.ts", import.meta.url),
);

test("SESS-008 CHAT-006 1,000 seeded threads lose and repeat nothing", async () => {
  const last = only || seeds;
  const firsts = Array.from(
    { length: Math.ceil((last + 1 - (only || 1)) / seedsEach) },
    (_, part) => (only || 1) + part * seedsEach,
  );

  const parts = await Promise.all(
    firsts.map((from) => threads.ask({ from, to: Math.min(last, from + seedsEach - 1) })),
  );

  const seen = new Set(parts.flatMap((part) => part.seen));
  for (const { failure } of parts) assert.equal(failure, null, failure ?? "");
  if (only > 0) return;
  for (const what of [
    "taken",
    "run_in_progress",
    "aborted",
    "answered",
    "forked",
    "rewound",
    "listened",
    "nobody came",
    "a task waits",
    "a task is answered",
  ])
    assert.ok(
      [...seen].some((each) => each.includes(what)),
      `no seed has met "${what}": ${[...seen]}`,
    );
});
