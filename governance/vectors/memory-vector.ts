import type { TenantStore } from "../../storage/store/store.ts";
import { type MemoryVector, memoryKey } from "../../storage/tables/memories.ts";
import type { TextVectors } from "./text-vectors.ts";

/** Returns what queues a new memory for its vector. `now` is the time of its creation. Call `wake` after the batch. */
export async function memoryVector(
  store: TenantStore,
  id: string,
  now: number,
  textVectors: TextVectors,
): Promise<MemoryVector> {
  const queueOps = await textVectors.queueOps(store, "memories", [memoryKey(store.tenantId, id)], now);
  return { vectorBytes: textVectors.bytesOfText, queueOps };
}
