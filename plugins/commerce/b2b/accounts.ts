import { list } from "../../../storage/store/list.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  selectOne,
  table,
  text,
} from "../../../storage/store/table.ts";
import { buyerRoles, paymentTerms } from "./authority.ts";

// Accounts of businesses and their buyers, as rows of svc. entities/entity-source.ts reads them from where a tenant keeps them.

const statuses = ["active", "suspended"] as const;

/** The accounts. */
export const accountTable = table(
  "commerce_accounts",
  {
    id: text,
    ts: integer,
    name: text,
    status: oneOf(...statuses),
    payment_terms: oneOf(...paymentTerms),
    credit_limit_cents: integer,
    /** Taken off catalog prices. */
    discount_bps: integer,
    currency: text,
    metadata: json<Readonly<Record<string, unknown>>>(),
    /** Raised by each change. */
    version: integer,
  },
  ({ text: name }) => ({
    ...{ id: "row", ts: 5, name, status: "active" as const, payment_terms: "net30" as const, credit_limit_cents: 5 },
    ...{ discount_bps: 5, currency: "usd", metadata: { name }, version: 5 },
  }),
);

/** The sums of open invoices. */
export const balanceTable = table("commerce_account_balances", { account_id: text, open_cents: integer }, () => ({
  account_id: "row",
  open_cents: 5,
}));

/** The buyers. */
export const buyerTable = table(
  "commerce_buyers",
  {
    id: text,
    ts: integer,
    account_id: text,
    email: text,
    name: text,
    role: oneOf(...buyerRoles),
    /** Above it a purchase needs an approval. */
    spending_limit_cents: integer,
    /** The principal that is this buyer; null for none. */
    subject: nullable(text),
    status: oneOf(...statuses),
    version: integer,
  },
  ({ text: name }) => ({
    ...{ id: "row", ts: 5, account_id: "row", email: name, name, role: "viewer" as const, spending_limit_cents: 5 },
    ...{ subject: name, status: "active" as const, version: 5 },
  }),
);

/** A stored account. */
export type AccountRow = RowIn<typeof accountTable>;
/** A stored buyer. */
export type BuyerRow = RowIn<typeof buyerTable>;

const updateAccount = tenantSql(
  "commerce_account_update",
  `UPDATE commerce_accounts SET name = ?, status = ?, payment_terms = ?, credit_limit_cents = ?, discount_bps = ?,
     metadata = ?, version = version + 1
   WHERE tenant_id = :tenant AND id = ? AND version = ?`,
);
const holdAccount = tenantSql(
  "commerce_account_hold",
  "UPDATE commerce_accounts SET version = version WHERE tenant_id = :tenant AND id = ? AND version = ?",
);
const deleteAccount = tenantSql(
  "commerce_account_delete",
  `DELETE FROM commerce_accounts WHERE tenant_id = :tenant AND id = ? AND NOT EXISTS
     (SELECT 1 FROM commerce_account_balances b WHERE b.tenant_id = :tenant AND b.account_id = ? AND b.open_cents > 0)
   RETURNING id`,
);
const deleteBuyersOf = tenantSql(
  "commerce_buyers_delete_of",
  `DELETE FROM commerce_buyers WHERE tenant_id = :tenant AND account_id = ? AND NOT EXISTS
     (SELECT 1 FROM commerce_accounts a WHERE a.tenant_id = :tenant AND a.id = ?)`,
);
const deleteContractsOf = tenantSql(
  "commerce_contracts_delete_of",
  `DELETE FROM commerce_contract_prices WHERE tenant_id = :tenant AND account_id = ? AND NOT EXISTS
     (SELECT 1 FROM commerce_accounts a WHERE a.tenant_id = :tenant AND a.id = ?)`,
);
const updateBuyer = tenantSql(
  "commerce_buyer_update",
  `UPDATE commerce_buyers SET email = ?, name = ?, role = ?, spending_limit_cents = ?, subject = ?, status = ?,
     version = version + 1
   WHERE tenant_id = :tenant AND id = ? AND version = ?`,
);
const holdBuyer = tenantSql(
  "commerce_buyer_hold",
  "UPDATE commerce_buyers SET version = version WHERE tenant_id = :tenant AND id = ? AND version = ?",
);
const deleteBuyer = tenantSql(
  "commerce_buyer_delete",
  "DELETE FROM commerce_buyers WHERE tenant_id = :tenant AND id = ? RETURNING id",
);
const openBalance = tenantSql(
  "commerce_balance_open",
  `INSERT INTO commerce_account_balances (tenant_id, account_id, open_cents) VALUES (:tenant, ?, 0)
   ON CONFLICT (tenant_id, account_id) DO NOTHING`,
);
const chargeBalance = tenantSql(
  "commerce_balance_charge",
  `UPDATE commerce_account_balances SET open_cents = open_cents + ?
   WHERE tenant_id = :tenant AND account_id = ? AND open_cents + ? <= ?`,
);
const payBalance = tenantSql(
  "commerce_balance_pay",
  `UPDATE commerce_account_balances SET open_cents = CASE WHEN open_cents > ? THEN open_cents - ? ELSE 0 END
   WHERE tenant_id = :tenant AND account_id = ?`,
);

/** Returns a page of accounts, newest first. */
export const accountPage = list(accountTable, []).page;
/** Returns an account. */
export const accountById = selectOne(accountTable, ["id"]);
/** Returns a page of buyers, newest first; with `account_id`, those of the account. */
export const buyerPage = list(buyerTable, ["account_id"], {
  indexes: { account_id: "commerce_buyers_account" },
  unindexed: [],
}).page;
/** Returns a buyer. */
export const buyerById = selectOne(buyerTable, ["id"]);
/** Returns the buyer that a principal is. */
export const buyerBySubject = selectOne(buyerTable, ["subject"]);
const balanceOf = selectOne(balanceTable, ["account_id"]);

/** Returns the operation that stores a new account. Its batch refuses with conflict if the id is taken. */
export const insertAccountOp: (store: TenantStore, row: AccountRow) => WriteOp = insertInto(accountTable);
/** Returns the operation that stores a new buyer. Its batch refuses with conflict if the id or the subject is taken. */
export const insertBuyerOp: (store: TenantStore, row: BuyerRow) => WriteOp = insertInto(buyerTable);

/** Returns the operation that stores a changed account, unless it has changed since it was read. */
export function updateAccountOp(store: TenantStore, row: AccountRow): WriteOp {
  const { id, name, status, payment_terms, credit_limit_cents, discount_bps, metadata, version } = row;
  const values = [name, status, payment_terms, credit_limit_cents, discount_bps, JSON.stringify(metadata)];
  return store.op(updateAccount, [...values, id, version], 1);
}

/** Returns the operation that refuses with conflict if the account has changed since it was read. */
export function holdAccountOp(store: TenantStore, { id, version }: Pick<AccountRow, "id" | "version">): WriteOp {
  return store.op(holdAccount, [id, version], 1);
}

/** Deletes an account with its buyers and contract prices, unless it has open invoices. Returns false if it stays. */
export async function removeAccount(store: TenantStore, id: string): Promise<boolean> {
  const ops = [
    store.op(deleteAccount, [id, id]),
    store.op(deleteBuyersOf, [id, id]),
    store.op(deleteContractsOf, [id, id]),
  ];
  const [rows = []] = await store.write(ops);
  return rows.length > 0;
}

/** Returns the operation that stores a changed buyer, unless it has changed since it was read. */
export function updateBuyerOp(store: TenantStore, row: BuyerRow): WriteOp {
  const { id, email, name, role, spending_limit_cents, subject, status, version } = row;
  return store.op(updateBuyer, [email, name, role, spending_limit_cents, subject, status, id, version], 1);
}

/** Returns the operation that refuses with conflict if the buyer has changed since it was read. */
export function holdBuyerOp(store: TenantStore, { id, version }: Pick<BuyerRow, "id" | "version">): WriteOp {
  return store.op(holdBuyer, [id, version], 1);
}

/** Deletes a buyer; returns false if there is none. */
export async function removeBuyer(store: TenantStore, id: string): Promise<boolean> {
  const [rows = []] = await store.write([store.op(deleteBuyer, [id])]);
  return rows.length > 0;
}

/** Returns the sum of the open invoices of an account. */
export async function openCents(store: TenantStore, accountId: string): Promise<number> {
  return (await balanceOf(store, accountId))?.open_cents ?? 0;
}

/**
 * Returns the operations that add an invoice to the open amount of an account. Their batch refuses with conflict if the sum would exceed
 * `mostCents`.
 */
export function chargeOps(store: TenantStore, accountId: string, amountCents: number, mostCents: number): WriteOp[] {
  return [
    store.op(openBalance, [accountId]),
    store.op(chargeBalance, [amountCents, accountId, amountCents, mostCents], 1),
  ];
}

/** Returns the operation that takes a paid invoice off the open amount of an account. */
export function paidOp(store: TenantStore, accountId: string, amountCents: number): WriteOp {
  return store.op(payBalance, [amountCents, amountCents, accountId]);
}
