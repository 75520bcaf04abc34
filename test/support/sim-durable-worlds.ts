import assert from "node:assert/strict";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { WorldsAsked, WorldsSeen } from "./sim-durable-worker.ts";

/** Threads at once: as many as the machine of the gate has cores. */
const threads = 2;

/** Holds simulated worlds of durable runs on a thread of its own, until one fails. */
export async function liveWorlds(asked: WorldsAsked): Promise<WorldsSeen> {
  const worker = new Worker(new URL("./sim-durable-worker.ts", import.meta.url), { workerData: asked });
  try {
    const [seen] = (await once(worker, "message")) as [WorldsSeen];
    return seen;
  } finally {
    await worker.terminate();
  }
}

/** The worlds of a range of seeds, side by side; `fault` is what happens in them. */
export async function liveSeeds(from: number, to: number, fault: string | null = null): Promise<WorldsSeen> {
  const each = Math.ceil((to - from + 1) / threads);
  const parts = Array.from({ length: threads }, (_, part) => from + part * each).filter((first) => first <= to);
  const all = await Promise.all(
    parts.map((first) => liveWorlds({ from: first, to: Math.min(to, first + each - 1), bug: fault })),
  );
  return {
    failed: all.find(({ failed }) => failed !== null)?.failed ?? null,
    seen: [...new Set(all.flatMap(({ seen }) => seen))],
  };
}

/** Throws what a world has failed with, and by which seed it fails again. */
export function assertSound(failed: WorldsSeen["failed"]): void {
  if (failed === null) return;
  assert.fail(`SVC_TEST_SEED=${failed.seed}: ${failed.message}\n${failed.outline}`);
}
