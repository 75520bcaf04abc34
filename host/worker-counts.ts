import type { Settings } from "../governance/settings/settings.ts";

/**
 * Threads of a process besides the store's writer thread (decision 40: a quarter of the cores serve HTTP, the rest hold actors).
 */
export interface ThreadCounts {
  /** Threads that serve HTTP, including the main thread. */
  readonly http: number;
  /** Threads that run turns; 0 if the main thread runs them. */
  readonly actors: number;
}

/**
 * Turns take two to three times the CPU time of HTTP, and the store thread mostly waits for the disk. Each thread costs a heap
 * of 20 MB, and a hop between threads costs a tenth of a turn's work. On two cores, the store thread and the system use much of
 * the second core, so the main thread does both.
 */
export function threadCounts(settings: Pick<Settings, "httpThreads" | "actorThreads">, cores: number): ThreadCounts {
  const http = settings.httpThreads || Math.max(1, Math.floor(cores / 4));
  const actors = settings.actorThreads || (cores <= 2 && http === 1 ? 0 : Math.max(1, cores - http));
  return { http, actors };
}
