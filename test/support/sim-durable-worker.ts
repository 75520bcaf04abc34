import { parentPort } from "node:worker_threads";
import { processSettings } from "./actor-process.ts";
import { faults, plantedBugs } from "./planted-bugs.ts";
import { SimDisk } from "./sim-disk.ts";
import { durableEnv, durableManifests, SimDurable } from "./sim-durable.ts";
import { Sim } from "./sim-env.ts";
import { cleanup } from "./temp.ts";

// A thread that holds simulated worlds of durable runs, one after the other.

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

parentPort?.on("message", async (asked: WorldsAsked) => parentPort?.postMessage(await liveAll(asked)));

async function liveAll({ from, to, bug }: WorldsAsked): Promise<WorldsSeen> {
  const undo: (() => Promise<void>)[] = [];
  const atEnd = cleanup({ after: (work) => void undo.push(work) });
  const settings = processSettings(atEnd, durableManifests, durableEnv);
  const mistake = bug === null ? {} : (plantedBugs[bug] ?? faults[bug] ?? {});
  const seen = new Set<string>();
  try {
    const disk = await SimDisk.open(atEnd);
    for (let seed = from; seed <= to; seed++) {
      const found = await live(new SimDurable(new Sim(seed), disk, settings, `sim-${seed}`, mistake), seen);
      if (found === null) continue;
      const other = await SimDisk.open(atEnd);
      const again = await live(new SimDurable(new Sim(seed), other, settings, `sim-${seed}`, mistake), seen);
      return { failed: { ...found, seed, again: again?.message ?? null }, seen: [...seen] };
    }
    return { failed: null, seen: [...seen] };
  } finally {
    for (const work of undo) await work();
  }
}

/** Lives through one world; answers with what it has failed. */
async function live(
  world: SimDurable,
  seen: Set<string>,
): Promise<Pick<NonNullable<WorldsSeen["failed"]>, "message" | "outline"> | null> {
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
