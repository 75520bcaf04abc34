import type { Settings } from "../governance/settings/settings.ts";

/** Threads of a process beside the one that writes the store (decision 40). */
export interface ThreadCounts {
  /** Threads that speak HTTP. One is the main thread. */
  readonly http: number;
  /** Threads of their own that run turns; with none the main thread does that too. */
  readonly actors: number;
}

/**
 * Turns take two to three times the work that HTTP takes, and the store's thread mostly waits for the disk. Every thread is one
 * more heap of 20 MB, and a hop between threads costs a turn a tenth of its work: on two cores, where the store's thread and
 * the system take a good part of the second, both are spared.
 */
export function threadCounts(settings: Pick<Settings, "httpThreads" | "actorThreads">, cores: number): ThreadCounts {
  const http = settings.httpThreads || Math.max(1, Math.floor(cores / 4));
  const actors = settings.actorThreads || (cores <= 2 && http === 1 ? 0 : Math.max(1, cores - http));
  return { http, actors };
}
