import type { Migration } from "../../../storage/store/migration.ts";

/** Accounts of businesses with their buyers and open amounts, contract prices, pricing rules and prices of competitors. */
export const accountsMigration: Migration = {
  revision: "0010",
  name: "commerce_accounts",
  up: [
    `CREATE TABLE commerce_accounts (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      name TEXT NOT NULL,
      status TEXT NOT NULL,
      payment_terms TEXT NOT NULL,
      credit_limit_cents BIGINT NOT NULL,
      discount_bps BIGINT NOT NULL,
      currency TEXT NOT NULL,
      metadata TEXT NOT NULL,
      version BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_accounts_recent ON commerce_accounts (tenant_id, ts, id)",
    // The sum of the open invoices of an account, wherever the account itself is kept.
    `CREATE TABLE commerce_account_balances (
      tenant_id TEXT NOT NULL,
      account_id TEXT NOT NULL,
      open_cents BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, account_id)
    )`,
    `CREATE TABLE commerce_buyers (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      account_id TEXT NOT NULL,
      email TEXT NOT NULL,
      name TEXT NOT NULL,
      role TEXT NOT NULL,
      spending_limit_cents BIGINT NOT NULL,
      subject TEXT,
      status TEXT NOT NULL,
      version BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_buyers_account ON commerce_buyers (tenant_id, account_id, ts, id)",
    "CREATE UNIQUE INDEX commerce_buyers_subject ON commerce_buyers (tenant_id, subject) WHERE subject IS NOT NULL",
    `CREATE TABLE commerce_contract_prices (
      tenant_id TEXT NOT NULL,
      account_id TEXT NOT NULL,
      product_id TEXT NOT NULL,
      currency TEXT NOT NULL,
      tiers TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, account_id, product_id)
    )`,
    `CREATE TABLE commerce_pricing_rules (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      ts BIGINT NOT NULL,
      scope TEXT NOT NULL,
      scope_value TEXT,
      kind TEXT NOT NULL,
      adjustment_bps BIGINT NOT NULL,
      floor_cents BIGINT,
      ceiling_cents BIGINT,
      conditions TEXT NOT NULL,
      active BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    `CREATE TABLE commerce_competitor_prices (
      tenant_id TEXT NOT NULL,
      id TEXT NOT NULL,
      product_id TEXT NOT NULL,
      competitor TEXT NOT NULL,
      price_cents BIGINT NOT NULL,
      currency TEXT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (tenant_id, id)
    )`,
    "CREATE INDEX commerce_competitor_prices_product ON commerce_competitor_prices (tenant_id, product_id, price_cents)",
  ],
  down: [
    "DROP TABLE commerce_competitor_prices",
    "DROP TABLE commerce_pricing_rules",
    "DROP TABLE commerce_contract_prices",
    "DROP TABLE commerce_buyers",
    "DROP TABLE commerce_account_balances",
    "DROP TABLE commerce_accounts",
  ],
};
