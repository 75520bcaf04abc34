import { SvcError } from "../../../bus/errors.ts";
import type { EntityRecord } from "../sources/connector.ts";
import { sourceNotNative, sourceUnavailable } from "../sources/entity-codes.ts";
import { effectiveSource, findEntities, findEntity, type SourceDeps } from "../sources/entity-source.ts";
import type { EntityType, SourceMode } from "../sources/entity-tables.ts";
import {
  type AccountRow,
  accountById,
  accountPage,
  type BuyerRow,
  buyerById,
  buyerBySubject,
  buyerPage,
  openCents,
} from "./accounts.ts";
import { type InvoiceRow, invoiceById, invoicePage, type QuoteRow, quoteById, quotePage } from "./quotes.ts";
import { readAccount, readBuyer, readInvoice, readQuote } from "./records.ts";
import { accountView } from "./views.ts";

// Reads accounts, buyers, quotes and invoices from where the tenant keeps them.

/** Max entities of one answer. */
const listedMax = 200;

/** Entities with the place where they are. */
export interface Sourced<T> {
  readonly items: readonly T[];
  readonly source: SourceMode;
  readonly next_cursor: string | null;
}

/** Refuses with source_not_native if another system keeps entities of a type. */
export async function refuseForeign(deps: SourceDeps, type: EntityType): Promise<void> {
  if ((await effectiveSource(deps, type)).mode !== "native") throw new SvcError(sourceNotNative);
}

/** Returns an account; undefined without one. `isNative` is false if another system keeps it. Refuses with source_unavailable. */
export async function findAccount(
  deps: SourceDeps,
  id: string,
): Promise<{ readonly account: AccountRow; readonly isNative: boolean } | undefined> {
  const found = await findEntity(deps, "account", id);
  const account = found.mode === "native" ? await accountById(deps.store, id) : readFound(found.record, readAccount);
  return account && { account, isNative: found.mode === "native" };
}

/** Returns an account as callers see it, with the sum of its open invoices. */
export async function accountShown(
  { store }: SourceDeps,
  account: AccountRow,
): Promise<ReturnType<typeof accountView>> {
  return accountView(store.tenantId, account, await openCents(store, account.id));
}

/** Returns a buyer; undefined without one. Refuses with source_unavailable. */
export async function findBuyer(
  deps: SourceDeps,
  id: string,
): Promise<{ readonly buyer: BuyerRow; readonly isNative: boolean } | undefined> {
  const found = await findEntity(deps, "buyer", id);
  const buyer = found.mode === "native" ? await buyerById(deps.store, id) : readFound(found.record, readBuyer);
  return buyer && { buyer, isNative: found.mode === "native" };
}

/** Returns the buyer that a principal is; undefined for none. Buyers of another system have no subjects here. */
export async function buyerOfSubject(deps: SourceDeps, subject: string): Promise<BuyerRow | undefined> {
  if ((await effectiveSource(deps, "buyer")).mode !== "native") return undefined;
  return buyerBySubject(deps.store, subject);
}

/** Returns a quote; undefined without one. Refuses with source_unavailable. */
export async function findQuote(deps: SourceDeps, id: string): Promise<QuoteRow | undefined> {
  const found = await findEntity(deps, "quote", id);
  return found.mode === "native" ? quoteById(deps.store, id) : readFound(found.record, readQuote);
}

/** Returns an invoice; undefined without one. Refuses with source_unavailable. */
export async function findInvoice(deps: SourceDeps, id: string): Promise<InvoiceRow | undefined> {
  const found = await findEntity(deps, "invoice", id);
  return found.mode === "native" ? invoiceById(deps.store, id) : readFound(found.record, readInvoice);
}

/** Returns a page of accounts. */
export async function listAccounts(deps: SourceDeps, cursor: string | null): Promise<Sourced<AccountRow>> {
  const found = await findEntities(deps, "account", listedMax, cursor);
  if (found.mode !== "native") return readPage(found, readAccount);
  const { rows, next_cursor } = await accountPage(deps.store, {}, cursor, listedMax);
  return { items: rows, source: "native", next_cursor };
}

/** Returns a page of the buyers of an account. */
export async function listBuyers(
  deps: SourceDeps,
  accountId: string,
  cursor: string | null,
): Promise<Sourced<BuyerRow>> {
  const found = await findEntities(deps, "buyer", listedMax, cursor);
  if (found.mode === "native") {
    const { rows, next_cursor } = await buyerPage(deps.store, { account_id: accountId }, cursor, listedMax);
    return { items: rows, source: "native", next_cursor };
  }
  const { items, ...rest } = readPage(found, readBuyer);
  return { items: items.filter(({ account_id }) => account_id === accountId), ...rest };
}

/** Returns a page of quotes; with an account, its quotes. */
export async function listQuotes(
  deps: SourceDeps,
  accountId: string | undefined,
  cursor: string | null,
): Promise<Sourced<QuoteRow>> {
  const found = await findEntities(deps, "quote", listedMax, cursor);
  if (found.mode === "native") {
    const { rows, next_cursor } = await quotePage(deps.store, { account_id: accountId }, cursor, listedMax);
    return { items: rows, source: "native", next_cursor };
  }
  const { items, ...rest } = readPage(found, readQuote);
  return { items: items.filter((row) => accountId === undefined || row.account_id === accountId), ...rest };
}

/** Returns a page of invoices; with an account, its invoices. */
export async function listInvoices(
  deps: SourceDeps,
  accountId: string | undefined,
  cursor: string | null,
): Promise<Sourced<InvoiceRow>> {
  const found = await findEntities(deps, "invoice", listedMax, cursor);
  if (found.mode === "native") {
    const { rows, next_cursor } = await invoicePage(deps.store, { account_id: accountId }, cursor, listedMax);
    return { items: rows, source: "native", next_cursor };
  }
  const { items, ...rest } = readPage(found, readInvoice);
  return { items: items.filter((row) => accountId === undefined || row.account_id === accountId), ...rest };
}

/** Returns what a record describes. Refuses with source_unavailable for a record that cannot be read. */
function readFound<T extends object>(record: EntityRecord | null, read: (record: EntityRecord) => T | string) {
  if (record === null) return undefined;
  const row = read(record);
  if (typeof row === "string") throw new SvcError(sourceUnavailable, { detail: row });
  return row;
}

/** Returns the entities of a page that can be read; others are left out. */
function readPage<T extends object>(
  page: { readonly mode: SourceMode; readonly records: readonly EntityRecord[]; readonly next_cursor: string | null },
  read: (record: EntityRecord) => T | string,
): Sourced<T> {
  const items = page.records.map(read).filter((row) => typeof row !== "string");
  return { items, source: page.mode, next_cursor: page.next_cursor };
}
