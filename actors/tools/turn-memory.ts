import type { AgentMemory } from "../../manifests/sections/memory.ts";
import type { MemoryReader, MemoryRow, MemoryWritten } from "../../storage/tables/memories.ts";

/** The access of one turn to the memory of its agent. */
export interface TurnMemory {
  readonly rules: AgentMemory;
  /** Null for a caller without credentials, which has no memory: all such callers share one identity. */
  readonly reader: MemoryReader | null;
  /** Subject of the person whose turn it is. */
  readonly principal: string;
  /** Null without a thread. */
  readonly origin: MemoryWritten["origin"];
  /** Returns the sources of untrusted text that the turn has read. */
  taint(): readonly string[];
  /** Records that the turn wrote or forgot a memory. */
  audit(event: "memory_written" | "memory_forgotten", memory: Pick<MemoryRow, "id">): void;
}
