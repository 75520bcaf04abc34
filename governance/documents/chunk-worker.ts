import { indexText } from "../../storage/tables/corpus-words.ts";
import type { DocumentChunk } from "../../storage/tables/documents.ts";
import type { ChunkTask } from "./chunk-job.ts";
import { chunksOf } from "./chunks.ts";

// Entry of the thread that divides documents; it calls `chunkDocument` for each task.

/** Returns the chunks of a text with their words; null if there are more than `chunksMax`. */
export function chunkDocument({ text, tenantId, chunksMax, ...rule }: ChunkTask): readonly DocumentChunk[] | null {
  const chunks: DocumentChunk[] = [];
  for (const content of chunksOf(text, rule)) {
    if (chunks.length === chunksMax) return null;
    chunks.push({ content, words: indexText(tenantId, content) });
  }
  return chunks;
}
