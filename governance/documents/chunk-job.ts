import type { DocumentChunk } from "../../storage/tables/documents.ts";
import type { ComputeJob } from "../compute/compute-pool.ts";
import type { ChunkRule } from "./chunks.ts";

/** A text to divide, and the most chunks that it may give. */
export interface ChunkTask extends ChunkRule {
  readonly text: string;
  readonly tenantId: string;
  readonly chunksMax: number;
}

/** Divides a document into chunks with their words. */
export const chunkJob: ComputeJob<ChunkTask, readonly DocumentChunk[] | null> = {
  name: "chunkDocument",
  file: new URL("./chunk-worker.ts", import.meta.url),
  deadlineMs: 20_000,
  heapMb: 256,
  waitingMax: 64,
};
