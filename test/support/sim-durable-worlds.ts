import assert from "node:assert/strict";
import type { WorldsAsked, WorldsSeen } from "./sim-durable-worker.ts";
import { SimThreads, simThreadsMax } from "./sim-threads.ts";

const threads = new SimThreads<WorldsAsked, WorldsSeen>(new URL("./sim-durable-worker.ts", import.meta.url));

/** Runs simulated worlds of durable runs on a thread, until one fails. */
export function liveWorlds(asked: WorldsAsked): Promise<WorldsSeen> {
  return threads.ask(asked);
}

/** The worlds of a range of seeds, concurrently; `fault` is planted in them, and `hosts` are in a network. */
export async function liveSeeds(
  from: number,
  to: number,
  { fault = null, hosts }: { readonly fault?: string | null; readonly hosts?: number } = {},
): Promise<WorldsSeen> {
  const each = Math.ceil((to - from + 1) / simThreadsMax);
  const parts = Array.from({ length: simThreadsMax }, (_, part) => from + part * each).filter((first) => first <= to);
  const all = await Promise.all(
    parts.map((first) =>
      liveWorlds({
        ...{ from: first, to: Math.min(to, first + each - 1), bug: fault },
        ...(hosts !== undefined && { hosts }),
      }),
    ),
  );
  return {
    failed: all.find(({ failed }) => failed !== null)?.failed ?? null,
    seen: [...new Set(all.flatMap(({ seen }) => seen))],
  };
}

/** Throws the failure of a world, with the seed that repeats it. */
export function assertSound(failed: WorldsSeen["failed"]): void {
  if (failed === null) return;
  assert.fail(`SVC_TEST_SEED=${failed.seed}: ${failed.message}\n${failed.outline}`);
}
