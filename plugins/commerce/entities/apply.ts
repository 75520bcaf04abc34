import type { Env } from "../../../bus/env.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { fulfilOps } from "../b2b/quote-order.ts";
import { idOf, readAccount, readBuyer, readCompetitorPrice, readInvoice, readQuote } from "../b2b/records.ts";
import { batchOf } from "../catalog/import-worker.ts";
import { type Product, readProduct } from "../catalog/product.ts";
import { importProducts, type ProductVectors, productsById } from "../catalog/products.ts";
import { isCurrency } from "../core/money.ts";
import { competitorById, competitorTable } from "../pricing/price-tables.ts";
import type { EntityRecord } from "../sources/connector.ts";
import { type EntityType, entityById, putEntityOp } from "../sources/entity-tables.ts";

// Applies records of another system. The record with the newest `updated_at` wins. A record that cannot be read is reported and does not
// stop the others.

/** The outcome of records. */
export interface Applied {
  readonly applied: number;
  /** Records that are older than the stored ones, or have no effect. */
  readonly skipped: number;
  readonly failed: number;
  readonly errors: readonly { readonly index: number; readonly id: string; readonly error: string }[];
}

/** The services of an application. */
export interface ApplyDeps {
  readonly env: Pick<Env, "now">;
  readonly store: Store;
  readonly tenantId: string;
  readonly textVectors: ProductVectors;
}

/** The clock of another system may be this far ahead. */
const aheadMsMax = 5 * 60_000;
/** Max errors that are reported. */
const errorsMax = 100;

const upsertCompetitor = tenantSql(
  "commerce_competitor_put",
  `INSERT INTO commerce_competitor_prices (tenant_id, ${competitorTable.columns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, id) DO UPDATE SET product_id = excluded.product_id, competitor = excluded.competitor,
     price_cents = excluded.price_cents, currency = excluded.currency, updated_at = excluded.updated_at
     WHERE excluded.updated_at >= commerce_competitor_prices.updated_at`,
);
const deleteCompetitor = tenantSql(
  "commerce_competitor_delete",
  "DELETE FROM commerce_competitor_prices WHERE tenant_id = :tenant AND id = ? AND updated_at <= ?",
);

interface Checked {
  readonly index: number;
  readonly id: string;
  readonly updated_at: number;
  readonly record: EntityRecord;
}

/** Applies records of a type in one batch, or deletes what they name; `more` are operations of the same batch. */
export async function applyRecords(
  deps: ApplyDeps,
  type: EntityType,
  records: readonly EntityRecord[],
  {
    isDeletion = false,
    more = () => [],
  }: { isDeletion?: boolean; more?: (applied: Applied) => readonly WriteOp[] } = {},
): Promise<Applied> {
  const now = deps.env.now();
  const errors: { index: number; id: string; error: string }[] = [];
  const newest = new Map<string, Checked>();
  let skipped = 0;
  for (const [index, record] of records.entries()) {
    const id = idOf(record);
    const problem = id === null ? "id must be a text of 1 to 128 characters" : timeProblem(record, now);
    if (id === null || problem !== null) {
      errors.push({ index, id: id ?? "", error: problem ?? "" });
      continue;
    }
    const checked = { index, id, updated_at: updatedAt(record, now), record };
    const other = newest.get(id);
    if (other !== undefined) skipped++;
    if (other === undefined || other.updated_at <= checked.updated_at) newest.set(id, checked);
  }
  const store = deps.store.tenant(deps.tenantId);
  const plan = await planOf(deps, store, type, [...newest.values()], isDeletion);
  errors.push(...plan.errors);
  const result: Applied = {
    ...{ applied: plan.applied, skipped: skipped + plan.skipped, failed: errors.length },
    errors: errors.toSorted((a, b) => a.index - b.index).slice(0, errorsMax),
  };
  if (plan.products.length > 0)
    await importProducts(deps.store, deps.tenantId, batchOf(plan.products, deps.tenantId), {
      ...{ ts: now, textVectors: deps.textVectors },
    });
  const ops = [...plan.ops, ...more(result)];
  if (ops.length > 0) await store.write(ops);
  return result;
}

interface Plan {
  readonly ops: WriteOp[];
  readonly products: (Product & { readonly ts: number })[];
  readonly errors: { index: number; id: string; error: string }[];
  applied: number;
  skipped: number;
}

async function planOf(
  deps: ApplyDeps,
  store: TenantStore,
  type: EntityType,
  checked: readonly Checked[],
  isDeletion: boolean,
): Promise<Plan> {
  const plan: Plan = { ops: [], products: [], errors: [], applied: 0, skipped: 0 };
  if (type === "product") await planProducts(store, checked, isDeletion, plan);
  else
    for (const one of checked) {
      if (type === "order") await planOrder(deps, store, one, isDeletion, plan);
      else if (type === "competitor_price") await planCompetitor(store, one, isDeletion, plan);
      else await planCopy(store, type, one, isDeletion, plan);
    }
  return plan;
}

const readers = { account: readAccount, buyer: readBuyer, quote: readQuote, invoice: readInvoice } as const;

async function planCopy(
  store: TenantStore,
  type: keyof typeof readers,
  { index, id, record, updated_at }: Checked,
  isDeletion: boolean,
  plan: Plan,
): Promise<void> {
  const row = isDeletion ? null : readers[type](record);
  if (typeof row === "string") {
    plan.errors.push({ index, id, error: row });
    return;
  }
  const before = await entityById(store, type, id);
  if (before !== undefined && before.updated_at > updated_at) {
    plan.skipped++;
    return;
  }
  const { version: _, ts, ...body } = { version: 0, ts: 0, ...row };
  const copy = isDeletion ? {} : { ...body, created_at: ts };
  plan.ops.push(putEntityOp(store, { type, id, body: copy, deleted: isDeletion ? 1 : 0, updated_at }));
  plan.applied++;
}

async function planCompetitor(
  store: TenantStore,
  { index, id, record, updated_at }: Checked,
  isDeletion: boolean,
  plan: Plan,
): Promise<void> {
  if (isDeletion) {
    plan.ops.push(store.op(deleteCompetitor, [id, updated_at]));
    plan.applied++;
    return;
  }
  const row = readCompetitorPrice({ ...record, updated_at });
  if (typeof row === "string") {
    plan.errors.push({ index, id, error: row });
    return;
  }
  const before = await competitorById(store, id);
  if (before !== undefined && before.updated_at > updated_at) {
    plan.skipped++;
    return;
  }
  plan.ops.push(store.op(upsertCompetitor, competitorTable.encode(row)));
  plan.applied++;
}

/** An update of an order says that it is fulfilled, and nothing else. */
async function planOrder(
  deps: ApplyDeps,
  store: TenantStore,
  { index, id, record }: Checked,
  isDeletion: boolean,
  plan: Plan,
): Promise<void> {
  if (isDeletion || record.status !== "fulfilled") {
    plan.errors.push({ index, id, error: "an order can only become fulfilled" });
    return;
  }
  const ops = await fulfilOps(store, id, deps.env.now());
  if (ops === null) plan.errors.push({ index, id, error: "there is no paid order of this id" });
  else if (ops.length === 0) plan.skipped++;
  else {
    plan.ops.push(...ops);
    plan.applied++;
  }
}

async function planProducts(
  store: TenantStore,
  checked: readonly Checked[],
  isDeletion: boolean,
  plan: Plan,
): Promise<void> {
  const known = await productsById(
    store,
    checked.map(({ id }) => id),
  );
  for (const { index, id, record, updated_at } of checked) {
    const before = known.get(id);
    if (before !== undefined && before.ts > updated_at) {
      plan.skipped++;
      continue;
    }
    if (isDeletion && before === undefined) {
      plan.skipped++;
      continue;
    }
    const { updated_at: _, created_at: __, ...fields } = record;
    const currency = before?.currency ?? (isCurrency(record.currency) ? record.currency : "usd");
    const row = isDeletion && before !== undefined ? { ...productFields(before), active: false } : fields;
    const product = readProduct(row, currency);
    if (typeof product === "string") {
      plan.errors.push({ index, id, error: product });
      continue;
    }
    // The time at the source, so that a change between its reading and this batch is applied later.
    plan.products.push({ ...product, ts: updated_at });
    plan.applied++;
  }
}

function productFields(
  row: NonNullable<Awaited<ReturnType<typeof productsById>> extends ReadonlyMap<string, infer R> ? R : never>,
) {
  const { product_key: _, ts: __, created_at: ___, active: ____, ...fields } = row;
  return fields;
}

function timeProblem({ updated_at }: EntityRecord, now: number): string | null {
  if (updated_at === undefined) return null;
  if (!Number.isSafeInteger(updated_at) || (updated_at as number) < 0) return "updated_at must be epoch milliseconds";
  return (updated_at as number) > now + aheadMsMax ? "updated_at is in the future" : null;
}

function updatedAt({ updated_at }: EntityRecord, now: number): number {
  return updated_at === undefined ? now : (updated_at as number);
}
