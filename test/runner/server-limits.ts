/** The servers that a test file may start: one for each database, and a few with other settings or after a kill. Each costs up to two seconds. */
export const serversMax = 6;

/** A file that may start more. */
export interface MoreServers {
  readonly max: number;
  readonly reason: string;
}

/** The files that need more servers, each with the most that it may start. */
export const moreServers: Readonly<Record<string, MoreServers>> = {
  "test/docs/pages.test.ts": { max: 14, reason: "The commands of each document run on a server of its own." },
  "test/docs/snippets.test.ts": { max: 12, reason: "The snippets of each document run on a server of its own." },
  "test/faults/data-dir-loss.test.ts": {
    max: 10,
    reason: "Each test takes the directory from a server, or replaces its content, before the next start.",
  },
  "test/faults/drain.test.ts": { max: 30, reason: "Each test ends a server by a signal, on both databases." },
  "test/faults/durable-kill.test.ts": { max: 25, reason: "Each test kills a server and starts it again." },
  "test/faults/durable-manifest.test.ts": { max: 9, reason: "Each test kills a server and starts it again." },
  "test/faults/kill-under-load.test.ts": { max: 22, reason: "A server is killed ten times on each database." },
  "test/faults/rate-memory.test.ts": {
    max: 12,
    reason: "A server is killed three times on each database, and others exit in order.",
  },
  "test/faults/storage-loss.test.ts": { max: 7, reason: "Each test takes the storage from a server." },
  "test/host/deliveries.test.ts": {
    max: 10,
    reason: "Each test finds another outbox at its start, with other settings.",
  },
  "test/http/middleware.test.ts": { max: 10, reason: "Each test looks at one setting that applies to every request." },
  "test/spec/anonymous.test.ts": { max: 9, reason: "The modes of authentication are settings." },
  "test/spec/background-tasks.test.ts": { max: 16, reason: "Most tests kill a server, to see what the next one does." },
  "test/spec/delegation-waits.test.ts": { max: 12, reason: "Most tests kill a server, to see what the next one does." },
  "test/spec/queues.test.ts": { max: 8, reason: "The names of queues and the secret of consumers are settings." },
  "test/spec/system.test.ts": { max: 18, reason: "Probes and the reference depend on settings and broken parts." },
};

/** Returns the number of servers that a file may start. */
export function serverLimit(path: string): number {
  return moreServers[path]?.max ?? serversMax;
}
