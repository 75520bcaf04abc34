import { parentPort } from "node:worker_threads";
import { processSettings } from "./actor-process.ts";
import { faults, plantedBugs } from "./planted-bugs.ts";
import { SimDisk } from "./sim-disk.ts";
import { durableEnv, durableManifests, SimDurable } from "./sim-durable.ts";
import { Sim } from "./sim-env.ts";
import { cleanup } from "./temp.ts";

// A thread that runs simulated worlds of durable runs in sequence.

/** The worlds, and the bug planted in them, or their fault. */
export interface WorldsAsked {
  readonly from: number;
  readonly to: number;
  readonly bug: string | null;
  /** The number of hosts of a world of a network. */
  readonly hosts?: number;
}

/** The failure with its seed, and the kinds of events of all seeds. */
export interface WorldsSeen {
  readonly failed: {
    readonly seed: number;
    readonly message: string;
    readonly outline: string;
    /** The failure of the same seed in a world of its own; null when it passes. */
    readonly again: string | null;
  } | null;
  readonly seen: readonly string[];
}

/** The events in each world. */
const actions = 14;

parentPort?.on("message", async (asked: WorldsAsked) => parentPort?.postMessage(await liveAll(asked)));

async function liveAll({ from, to, bug: bugName, hosts }: WorldsAsked): Promise<WorldsSeen> {
  const undo: (() => Promise<void>)[] = [];
  const atEnd = cleanup({ after: (work) => void undo.push(work) });
  const settings = processSettings(atEnd, durableManifests, durableEnv);
  const bug = bugName === null ? {} : (plantedBugs[bugName] ?? faults[bugName] ?? {});
  const world = (seed: number, disk: SimDisk): SimDurable =>
    new SimDurable(new Sim(seed), disk, settings, `sim-${seed}`, { bug, hosts: hosts ?? null });
  const seen = new Set<string>();
  try {
    const disk = await SimDisk.open(atEnd);
    for (let seed = from; seed <= to; seed++) {
      const found = await live(world(seed, disk), seen);
      if (found === null) continue;
      const other = await SimDisk.open(atEnd);
      const again = await live(world(seed, other), seen);
      return { failed: { ...found, seed, again: again?.message ?? null }, seen: [...seen] };
    }
    return { failed: null, seen: [...seen] };
  } finally {
    for (const work of undo) await work();
  }
}

/** Runs one world; returns its failure. */
async function live(
  world: SimDurable,
  seen: Set<string>,
): Promise<Pick<NonNullable<WorldsSeen["failed"]>, "message" | "outline"> | null> {
  try {
    await world.live(actions);
    return null;
  } catch (error) {
    // All worlds of a disk share the numbers of threads.
    const message = (error as Error).message.replaceAll(/log \d+/g, "log");
    return { message, outline: world.outline() };
  } finally {
    for (const what of world.record.seen) seen.add(what);
  }
}
