import type { Settings } from "../governance/settings.ts";

/** Threads of a process beside the one that writes the store: how many speak HTTP and how many run turns (decision 40). */
export interface ThreadCounts {
  readonly http: number;
  readonly actors: number;
}

/**
 * Turns take two to three times the work that HTTP takes, and the store's thread mostly waits for the disk. With one http thread
 * it is the main thread; every other thread is one more heap of 20 MB.
 */
export function threadCounts(settings: Pick<Settings, "httpThreads" | "actorThreads">, cores: number): ThreadCounts {
  const http = settings.httpThreads || Math.max(1, Math.floor(cores / 4));
  const actors = settings.actorThreads || Math.max(1, cores - http);
  return { http, actors };
}
