import { parentPort, workerData } from "node:worker_threads";
import { processSettings } from "./actor-process.ts";
import { faults, plantedBugs } from "./planted-bugs.ts";
import { SimDisk } from "./sim-disk.ts";
import { durableEnv, durableManifests, SimDurable } from "./sim-durable.ts";
import { Sim } from "./sim-env.ts";
import { cleanup } from "./temp.ts";

// A thread that holds simulated worlds of durable runs, one after the other. In a thread of its own it has a core of its own, and the
// hooks of node:test, which follow every promise, do not follow these.

/** Which worlds, and the mistake that is made in them, or the fault that happens. */
export interface WorldsAsked {
  readonly from: number;
  readonly to: number;
  readonly bug: string | null;
}

/** What was found, and by which seed; what the seeds have met. */
export interface WorldsSeen {
  readonly failed: {
    readonly seed: number;
    readonly message: string;
    readonly outline: string;
    /** What the same seed has failed with in a world of its own; null when it has not. */
    readonly again: string | null;
  } | null;
  readonly seen: readonly string[];
}

/** What happens in each world. */
const actions = 14;

const undo: (() => Promise<void>)[] = [];
const atEnd = cleanup({ after: (work) => void undo.push(work) });
const { from, to, bug } = workerData as WorldsAsked;
const settings = processSettings(atEnd, durableManifests, durableEnv);
const seen = new Set<string>();

/** Lives through one world; answers with what it has failed. */
async function live(
  seed: number,
  disk: SimDisk,
): Promise<Pick<NonNullable<WorldsSeen["failed"]>, "message" | "outline"> | null> {
  const world = new SimDurable(
    new Sim(seed),
    disk,
    settings,
    `sim-${seed}`,
    bug === null ? {} : (plantedBugs[bug] ?? faults[bug]),
  );
  try {
    await world.live(actions);
    return null;
  } catch (error) {
    // Threads are numbered by all worlds of a disk together.
    const message = (error as Error).message.replaceAll(/log \d+/g, "log");
    return { message, outline: world.outline() };
  } finally {
    for (const what of world.record.seen) seen.add(what);
  }
}

const disk = await SimDisk.open(atEnd);
let failed: WorldsSeen["failed"] = null;
for (let seed = from; seed <= to && failed === null; seed++) {
  const found = await live(seed, disk);
  if (found === null) continue;
  const again = await live(seed, await SimDisk.open(atEnd));
  failed = { ...found, seed, again: again?.message ?? null };
}
for (const work of undo) await work();
parentPort?.postMessage({ failed, seen: [...seen] } satisfies WorldsSeen);
