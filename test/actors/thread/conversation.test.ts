// A conversation under everything that may happen to it: the real thread and run actors and SQLite on the simulated clock.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { processSettings } from "../../support/actor-process.ts";
import { conversationManifests, SimConversation } from "../../support/sim-conversation.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

/** SVC_TEST_SEED runs one seed alone. */
const only = Number(process.env.SVC_TEST_SEED ?? 0);
const seeds = Number(process.env.SVC_TEST_SEEDS ?? 1_000);
const actions = 12;

const atEnd = cleanup();
let disk: SimDisk;
let settings: ReturnType<typeof processSettings>;
before(async () => {
  settings = processSettings(atEnd, conversationManifests, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
  disk = await SimDisk.open(atEnd);
});

test("SESS-008 CHAT-006 1,000 seeded conversations lose nothing, do nothing twice and say what is true", async () => {
  const seen = new Set<string>();
  for (let seed = only || 1; seed <= (only || seeds); seed++) {
    const conversation = new SimConversation(new Sim(seed), disk, settings, `sim-${seed}`);
    try {
      await conversation.live(actions);
    } catch (error) {
      throw new Error(`seed ${seed}: ${(error as Error).message}\n${await conversation.outline()}`, { cause: error });
    }
    for (const what of conversation.seen) seen.add(what);
  }

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
