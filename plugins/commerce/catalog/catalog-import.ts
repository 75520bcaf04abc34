import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import type { ComputePool } from "../../../governance/compute/compute-pool.ts";
import type { Store } from "../../../storage/store/store.ts";
import { catalogFull, invalidCatalog } from "../core/shop-errors.ts";
import { errorsMax, type ImportTask, importJob, type RowError } from "./import-job.ts";
import {
  deactivateOlder,
  importProducts,
  knownCount,
  type ProductVectors,
  productCount,
  productsAfter,
  reindexProducts,
} from "./products.ts";

/** The services of an import. */
export interface ImportDeps {
  readonly env: Env;
  readonly store: Store;
  readonly compute: Pick<ComputePool, "run">;
  readonly textVectors: ProductVectors;
  /** Max products of the tenant. */
  readonly productsMax: number;
}

/** The outcome of an import. */
export interface Imported {
  readonly imported: number;
  readonly deactivated: number;
  /** The first errors. */
  readonly errors: readonly RowError[];
  readonly error_count: number;
}

/**
 * Imports a catalog: good rows are stored, broken ones reported. With `replace`, products that the catalog does not list become
 * inactive. Refuses with invalid_catalog before anything changes, and with catalog_full if no further product fits.
 */
export async function importCatalog(
  task: ImportTask,
  mode: "upsert" | "replace",
  { env, store, compute, textVectors, productsMax }: ImportDeps,
): Promise<Imported> {
  const parsed = await compute.run(importJob, task).catch((cause: unknown) => {
    throw new SvcError("deadline_exceeded", {}, { cause });
  });
  if (parsed.refusal !== null) throw new SvcError(invalidCatalog, { detail: parsed.refusal });
  const tenant = store.tenant(task.tenantId);
  const ts = env.now();
  let stored = await productCount(tenant);
  let imported = 0;
  for (const batch of parsed.batches) {
    const added = batch.count - (await knownCount(tenant, batch));
    if (stored + added > productsMax)
      throw new SvcError(catalogFull, { detail: { imported, products: stored, products_max: productsMax } });
    await importProducts(store, task.tenantId, batch, { ts, textVectors });
    stored += added;
    imported += batch.count;
  }
  const deactivated = mode === "replace" ? await deactivateOlder(tenant, ts) : 0;
  const { errors, error_count } = parsed;
  return { imported, deactivated, errors: errors.slice(0, errorsMax), error_count };
}

const reindexRows = 200;

/** Makes the words of every product of a tenant anew, and queues active ones for new vectors; returns how many products there are. */
export async function reindexCatalog(store: Store, tenantId: string, textVectors: ProductVectors): Promise<number> {
  const tenant = store.tenant(tenantId);
  let count = 0;
  for (let after = ""; ; ) {
    const rows = await productsAfter(tenant, after, reindexRows);
    await reindexProducts(tenant, rows, textVectors);
    count += rows.length;
    const last = rows.at(-1);
    if (last === undefined || rows.length < reindexRows) break;
    after = last.id;
  }
  textVectors.wake(tenantId);
  return count;
}
