import { list } from "../../../storage/store/list.ts";
import { tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  selectOne,
  table,
  text,
  upsertInto,
} from "../../../storage/store/table.ts";
import type { PriceTier, PricingRule } from "./prices.ts";

// Contract prices of accounts, rules that change catalog prices, and prices of competitors.

/** The contract prices. */
export const contractTable = table(
  "commerce_contract_prices",
  {
    account_id: text,
    product_id: text,
    currency: text,
    tiers: json<readonly PriceTier[]>(),
    created_at: integer,
    updated_at: integer,
  },
  () => ({
    ...{ account_id: "row", product_id: "row", currency: "usd", tiers: [{ min_qty: 1, unit_price_cents: 5 }] },
    ...{ created_at: 5, updated_at: 5 },
  }),
);

/** The pricing rules. */
export const ruleTable = table(
  "commerce_pricing_rules",
  {
    id: text,
    ts: integer,
    scope: oneOf("catalog", "category", "product"),
    scope_value: nullable(text),
    kind: oneOf("time", "velocity", "competitor"),
    adjustment_bps: integer,
    floor_cents: nullable(integer),
    ceiling_cents: nullable(integer),
    conditions: json<PricingRule["conditions"]>(),
    active: integer,
  },
  ({ text: value }) => ({
    ...{ id: "row", ts: 5, scope: "category" as const, scope_value: value, kind: "time" as const, adjustment_bps: 5 },
    ...{ floor_cents: 5, ceiling_cents: 5, conditions: {}, active: 1 },
  }),
);

/** The prices of competitors. */
export const competitorTable = table(
  "commerce_competitor_prices",
  { id: text, product_id: text, competitor: text, price_cents: integer, currency: text, updated_at: integer },
  ({ text: competitor }) => ({
    ...{ id: "row", product_id: "row", competitor, price_cents: 5, currency: "usd", updated_at: 5 },
  }),
);

/** A stored contract price. */
export type ContractRow = RowIn<typeof contractTable>;
/** A stored pricing rule. */
export type RuleRow = RowIn<typeof ruleTable>;
/** A stored price of a competitor. */
export type CompetitorRow = RowIn<typeof competitorTable>;

/** Max pricing rules of a tenant. */
export const rulesMax = 200;

const { columns } = contractTable;
const upsertContract = tenantSql(
  "commerce_contract_put",
  `INSERT INTO commerce_contract_prices (tenant_id, ${columns}) VALUES (:tenant, ?, ?, ?, ?, ?, ?)
   ON CONFLICT (tenant_id, account_id, product_id) DO UPDATE SET currency = excluded.currency, tiers = excluded.tiers,
     updated_at = excluded.updated_at
   RETURNING ${columns}`,
);
const deleteContract = tenantSql(
  "commerce_contract_delete",
  "DELETE FROM commerce_contract_prices WHERE tenant_id = :tenant AND account_id = ? AND product_id = ? RETURNING product_id",
);
const selectContracts = tenantSql(
  "commerce_contracts_of",
  `SELECT ${columns} FROM commerce_contract_prices WHERE tenant_id = :tenant AND account_id = ? AND product_id > ?
   ORDER BY product_id LIMIT ?`,
);
const deleteRule = tenantSql(
  "commerce_rule_delete",
  "DELETE FROM commerce_pricing_rules WHERE tenant_id = :tenant AND id = ? RETURNING id",
);
const selectActive = tenantSql(
  "commerce_rules_active",
  `SELECT ${ruleTable.columns} FROM commerce_pricing_rules WHERE tenant_id = :tenant AND active = 1 ORDER BY id LIMIT ?`,
);
const countRules = tenantSql(
  "commerce_rules_count",
  "SELECT COUNT(*) AS count FROM commerce_pricing_rules WHERE tenant_id = :tenant",
);
const selectCheapest = tenantSql(
  "commerce_competitor_cheapest",
  `SELECT MIN(price_cents) AS cents FROM commerce_competitor_prices
   WHERE tenant_id = :tenant AND product_id = ? AND currency = ?`,
);
const _selectCompetitors = tenantSql(
  "commerce_competitors_after",
  `SELECT ${competitorTable.columns} FROM commerce_competitor_prices WHERE tenant_id = :tenant AND id > ?
   ORDER BY id LIMIT ?`,
);

/** Returns the contract price of an account for a product. */
export const contractOf = selectOne(contractTable, ["account_id", "product_id"]);
/** Returns a pricing rule. */
export const ruleById = selectOne(ruleTable, ["id"]);
/** Returns a page of pricing rules. */
export const rulePage = list(ruleTable, []).page;
/** Returns the operation that stores a pricing rule. */
export const putRuleOp: (store: TenantStore, row: RuleRow) => WriteOp = upsertInto(ruleTable, ["id"]);
/** Returns a price of a competitor. */
export const competitorById = selectOne(competitorTable, ["id"]);

/** Stores the contract price of an account for a product; returns it with the time when it was made. */
export async function putContract(store: TenantStore, row: ContractRow): Promise<ContractRow> {
  const [[stored] = []] = await store.write([store.op(upsertContract, contractTable.encode(row))]);
  return contractTable.decode(stored as Parameters<typeof contractTable.decode>[0]);
}

/** Deletes a contract price; returns false if there is none. */
export async function removeContract(store: TenantStore, accountId: string, productId: string): Promise<boolean> {
  const [rows = []] = await store.write([store.op(deleteContract, [accountId, productId])]);
  return rows.length > 0;
}

/** Returns the contract prices of an account after a product, by product. */
export async function contractsOf(
  store: TenantStore,
  accountId: string,
  after: string,
  limit: number,
): Promise<ContractRow[]> {
  return (await store.read(selectContracts, accountId, after, limit)).map(contractTable.decode);
}

/** Deletes a pricing rule; returns false if there is none. */
export async function removeRule(store: TenantStore, id: string): Promise<boolean> {
  const [rows = []] = await store.write([store.op(deleteRule, [id])]);
  return rows.length > 0;
}

/** Returns every active rule of a tenant. */
export async function activeRules(store: TenantStore): Promise<PricingRule[]> {
  return (await store.read(selectActive, rulesMax)).map((row) => ruleOf(ruleTable.decode(row)));
}

/** Returns the number of rules of a tenant. */
export async function ruleCount(store: TenantStore): Promise<number> {
  return Number((await store.read(countRules))[0]?.count ?? 0);
}

/** Returns the rule of a row. */
function ruleOf({ active, ts: _, id: __, ...rule }: RuleRow): PricingRule {
  return { ...rule, active: active === 1 };
}

/** Returns the cheapest price of a competitor for a product; null if none is known. */
export async function cheapestCents(store: TenantStore, productId: string, currency: string): Promise<number | null> {
  const [row] = await store.read(selectCheapest, productId, currency);
  return (row?.cents ?? null) as number | null;
}
