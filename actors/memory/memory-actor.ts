import { defineActor } from "../runtime/define.ts";
import type { MemoryDeps } from "./deps.ts";
import { MemoryWorker } from "./memory-worker.ts";

/** Captures the facts of ended turns of a tenant, which is its key, and merges duplicates. */
export const memoryActor = defineActor<"memory", MemoryWorker, MemoryDeps>({
  kind: "memory",
  mailboxLimit: 256,
  interleaves: ["wake", "consolidate"],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, env, deps }) => new MemoryWorker(key, env, deps),
  idle: (worker) => worker.isIdle,
  crashed: (worker) => worker.stop(),
  on: {
    wake: (worker) => worker.wake(),
    consolidate: (worker) => worker.merge(),
  },
});
