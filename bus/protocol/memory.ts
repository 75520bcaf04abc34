/** Messages to the worker of a tenant's memories, which captures facts of ended turns and merges duplicates. */
export interface MemoryMessages {
  /** Hints that a turn waits for its capture. The store is authoritative; a periodic check covers lost hints. */
  wake: { body: Record<string, never> };
  /** Merges the duplicates of the due pools. Repeated messages have no effect while one is in progress. */
  consolidate: { body: Record<string, never> };
}
