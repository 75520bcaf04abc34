import type { Store, TenantStore } from "../store/store.ts";
import type { Corpus, QueuedText, VectorModel } from "./vectors.ts";

/** A queued text with its content; null if the text was deleted. */
export interface QueuedContent extends QueuedText {
  readonly text: string | null;
}

/** Numbers of a corpus over all tenants. */
export interface CorpusCounts {
  readonly texts: number;
  /** Texts with a vector of the present model. */
  readonly embedded: number;
  readonly queued: number;
}

/** Texts that have vectors. */
export interface TextCorpus {
  readonly corpus: Corpus;
  /** Returns the first queued texts of a tenant. */
  queued(store: TenantStore, limit: number): Promise<QueuedContent[]>;
  /**
   * Queues the texts of all tenants without a vector of the model, among the next `limit` texts after the key `after`. Returns
   * the last key, null after the last text.
   */
  queueMissing(store: Store, model: VectorModel, after: number, limit: number): Promise<number | null>;
  count(store: Store, model: VectorModel): Promise<CorpusCounts>;
}
