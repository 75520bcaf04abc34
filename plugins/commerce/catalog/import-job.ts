import type { ComputeJob } from "../../../governance/compute/compute-pool.ts";

/** The text of a catalog, with the tenant and the currency of its products. */
export interface ImportTask {
  readonly format: "csv" | "json";
  readonly bytes: Uint8Array;
  readonly currency: string;
  readonly tenantId: string;
}

/** One batch of products, as texts of JSON that the statements of products.ts take. */
export interface ImportBatch {
  readonly count: number;
  readonly ids: string;
  readonly rows: string;
  readonly words: string;
}

/** A row that is no product. `index` counts rows from 0, without the header. */
export interface RowError {
  readonly index: number;
  readonly id: string;
  readonly error: string;
}

/** What a catalog contains. */
export interface ParsedCatalog {
  readonly batches: readonly ImportBatch[];
  readonly products: number;
  /** The first errors. */
  readonly errors: readonly RowError[];
  readonly error_count: number;
  /** Why the text as a whole is refused; null if it is not. */
  readonly refusal: string | null;
}

/** Reads and checks the products of a catalog. */
export const importJob: ComputeJob<ImportTask, ParsedCatalog> = {
  name: "parseCatalog",
  file: new URL("./import-worker.ts", import.meta.url),
  deadlineMs: 60_000,
  heapMb: 512,
  waitingMax: 4,
};

/** Max bytes of an import. */
export const importBytesMax = 32 * 1024 * 1024;
/** Max rows of a CSV import. */
export const csvRowsMax = 100_000;
/** Max products of a JSON import. */
export const jsonRowsMax = 5_000;
/** Products of one batch. */
export const batchRows = 1_000;
/** Max errors in an answer. */
export const errorsMax = 1_000;
