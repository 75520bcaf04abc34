// The totals of a purchase are the same on every way to it: cart, order and ACP session; quote, order and invoice.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { systemEnv } from "../../../bus/env.ts";
import type { SvcError } from "../../../bus/errors.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { readSettings } from "../../../governance/settings/settings.ts";
import { allMigrations } from "../../../host/all-migrations.ts";
import { type AcpDeps, sessionOf } from "../../../plugins/commerce/acp/acp-sources.ts";
import {
  type AccountRow,
  type BuyerRow,
  insertAccountOp,
  insertBuyerOp,
} from "../../../plugins/commerce/b2b/accounts.ts";
import { quoteById } from "../../../plugins/commerce/b2b/quotes.ts";
import {
  acceptQuote,
  convertQuote,
  makeQuote,
  presentQuote,
  sendQuote,
} from "../../../plugins/commerce/b2b/quoting.ts";
import { pricedProducts } from "../../../plugins/commerce/cart/cart-tools.ts";
import { importCatalog } from "../../../plugins/commerce/catalog/catalog-import.ts";
import { parseCatalog } from "../../../plugins/commerce/catalog/import-worker.ts";
import { priceCheckout } from "../../../plugins/commerce/checkout/checkout.ts";
import { shippingOptions } from "../../../plugins/commerce/checkout/shipping.ts";
import { plugin } from "../../../plugins/commerce/commerce.ts";
import { orderById } from "../../../plugins/commerce/orders/orders.ts";
import { putRuleOp, type RuleRow } from "../../../plugins/commerce/pricing/price-tables.ts";
import type { SourceDeps } from "../../../plugins/commerce/sources/entity-source.ts";
import { migrate } from "../../../storage/migrate.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { approvalById, decideOps } from "../../../storage/tables/approvals.ts";
import { runs } from "../../support/effort.ts";
import { noVectors } from "../../support/no-vectors.ts";
import { emptyDatabase, runStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const skus = ["a", "b", "c", "d"];
const cents = fc.integer({ min: 0, max: 20_000 });
const clamp = fc.option(cents, { nil: null });
const shop = fc.record({
  prices: fc.array(cents, { minLength: skus.length, maxLength: skus.length }),
  rules: fc.array(
    fc.record({
      sku: fc.option(fc.constantFrom(...skus), { nil: null }),
      adjustment_bps: fc.integer({ min: -12_000, max: 12_000 }),
      floor_cents: clamp,
      ceiling_cents: clamp,
    }),
    { maxLength: 3 },
  ),
  quantities: fc.array(fc.integer({ min: 1, max: 99 }), { minLength: 1, maxLength: skus.length }),
  taxBps: fc.integer({ min: 0, max: 3_000 }),
  shippingCents: cents,
  freeFrom: fc.option(cents, { nil: null }),
});
type Shop = typeof shop extends fc.Arbitrary<infer T> ? T : never;

describe("totals of a purchase", () => {
  const atEnd = cleanup();
  const env = systemEnv();
  let store: Store;
  let tenants = 0;
  before(async () => {
    const config = await emptyDatabase("sqlite", atEnd);
    await migrate(config, { target: "head", downgrade: false }, allMigrations([{ from: "svc", plugin }]));
    ({ store } = await runStore(config, atEnd));
  });

  /** Fills the catalog of a new tenant, and returns the services of its requests. */
  async function filled({ prices, rules, taxBps, shippingCents, freeFrom }: Shop) {
    const tenantId = `t${++tenants}`;
    const products = skus.map((id, at) => ({ id, title: id, price_cents: prices[at] }));
    const bytes = new TextEncoder().encode(JSON.stringify({ products }));
    const compute = { run: (_: unknown, task: never) => parseCatalog(task) };
    const task = { format: "json", bytes, currency: "usd", tenantId } as const;
    const textVectors = noVectors(env, store);
    await importCatalog(task, "upsert", { env, store, productsMax: 1_000, compute, textVectors } as never);
    const tenant = store.tenant(tenantId);
    const rows = rules.map(({ sku, ...rule }, at): RuleRow => {
      const scope = sku === null ? "catalog" : "product";
      return { id: `r${at}`, ts: at, scope, scope_value: sku, kind: "time", conditions: {}, active: 1, ...rule };
    });
    if (rows.length > 0) await tenant.write(rows.map((row) => putRuleOp(tenant, row)));
    const option = { id: "post", title: "Post", amount_cents: shippingCents, min_days: 1, max_days: 2 };
    const { settings, issues } = readSettings(
      {
        COMMERCE_TAX_BPS: String(taxBps),
        COMMERCE_SHIPPING: JSON.stringify({
          options: [{ ...option, subtitle: "", carrier: "" }],
          free_threshold_cents: freeFrom,
        }),
      },
      plugin.settings,
    );
    assert.deepEqual(issues, []);
    const services = { env, settings, mask: new SecretMask([]), count() {} };
    return { tenantId, tenant, services };
  }

  test("COM-024 cart, order and ACP session agree to the cent", async () => {
    await fc.assert(
      fc.asyncProperty(shop, async (given) => {
        const { tenantId, tenant, services } = await filled(given);
        const { settings } = services;
        const lines = given.quantities.map((qty, at) => ({ product_id: skus[at] as string, qty }));
        const products = await pricedProducts({ store: tenant, env }, skus);
        const items = lines.map(({ product_id, qty }) => {
          return { product_id, title: product_id, qty, price_cents: products.get(product_id)?.price_cents as number };
        });
        const [shipping] = Object.values(settings.pluginSettings).filter(
          (value) => typeof value === "object" && value !== null && "free_threshold_cents" in value,
        ) as { options: never[]; free_threshold_cents: number | null }[];
        const options = await shippingOptions(
          { country: "US", items: lines },
          { shipping: shipping as never, carriers: null, requester: null, secrets: null },
        );

        const charge = await priceCheckout({ store: tenant, env }, { version: 0, items, currency: "usd" }, null, {
          ...{ options, country: "US", freeThreshold: given.freeFrom, taxBps: given.taxBps },
        });
        const fulfillment_address = {
          ...{ name: "Ann", line_one: "1 Main St", city: "Springfield", state: "IL", country: "US" },
          postal_code: "62701",
        };
        const asked = { items: lines.map(({ product_id: id, qty: quantity }) => ({ id, quantity })) };
        const deps = { ...services, store } as unknown as AcpDeps;
        const session = await sessionOf("s", { ...asked, fulfillment_address }, tenantId, deps);

        assert.ok(typeof charge !== "string", String(charge));
        const { subtotal_cents, shipping_cents, tax_cents, total_cents } = charge;
        assert.deepEqual(session.totals, {
          ...{ subtotal_cents, discount_cents: 0, shipping_cents, tax_cents, total_cents },
        });
        const view = session.view as { line_items: { tax: number; subtotal: number; total: number }[] };
        const sum = (field: "tax" | "subtotal") => view.line_items.reduce((all, line) => all + line[field], 0);
        assert.deepEqual(
          [sum("subtotal"), sum("tax")],
          [subtotal_cents, total_cents - subtotal_cents - shipping_cents],
        );
      }),
      { numRuns: runs(1_000) },
    );
  });

  const principal = { tenant_id: "x", sub: "clerk", scopes: ["*"], scheme: "api_key", issuer: "" } as const;
  const acting = { principal, manifest: "", thread: "" } as never;

  /** Makes the account `acme` of a tenant, and its buyer `bo`. */
  async function addParty(tenant: TenantStore, discount_bps: number, spending_limit_cents: number): Promise<void> {
    const account: AccountRow = {
      ...{ id: "acme", ts: 1, name: "Acme", status: "active", payment_terms: "net30" },
      ...{ credit_limit_cents: 99_999_999, discount_bps, currency: "usd", metadata: {}, version: 1 },
    };
    const buyer: BuyerRow = {
      ...{ id: "bo", ts: 1, account_id: "acme", email: "", name: "Bo", role: "purchaser", subject: null },
      ...{ spending_limit_cents, status: "active", version: 1 },
    };
    await tenant.write([insertAccountOp(tenant, account), insertBuyerOp(tenant, buyer)]);
  }

  test("B2B-001 a quote that expires while it waits for its approval is neither approved nor ordered", async () => {
    const prices = skus.map(() => 1_000);
    const given = { prices, rules: [], quantities: [1], taxBps: 0, shippingCents: 0, freeFrom: null };
    const { tenant, services } = await filled(given);
    await addParty(tenant, 0, 1);
    let aheadMs = 0;
    const clock = { ...env, id: () => env.id(), now: () => env.now() + aheadMs };
    const deps = { ...services, env: clock, store: tenant } as unknown as SourceDeps;
    const items = [{ product_id: "a", qty: 1 }];
    const makeParked = async () => {
      const { id } = await makeQuote(deps, acting, { account_id: "acme", buyer_id: "bo", items, notes: "" });
      await sendQuote(deps, id, 1);
      return acceptQuote(deps, acting, id);
    };
    const [waiting, approved] = [await makeParked(), await makeParked()];
    const row = await approvalById(tenant, approved.approval_id ?? "");
    assert.ok(row !== undefined && approved.valid_until !== null);
    await tenant.write(decideOps(tenant, row.id, { decision: "approved", note: "", edited_args: null }, "boss"));

    aheadMs = 86_400_001;
    const late = await Promise.all([waiting, approved].map(({ id }) => presentQuote(deps, id)));

    assert.ok(row.deadline <= approved.valid_until);
    assert.deepEqual(
      late.map((quote) => [quote?.status, quote?.approval_id]),
      [
        ["expired", null],
        ["expired", null],
      ],
    );
    for (const { id } of [waiting, approved])
      for (const act of [() => acceptQuote(deps, acting, id), () => convertQuote(deps, acting, id)])
        await assert.rejects(act, (error: SvcError) => error.code === "expired");
  });

  test("B2B-002 quote, order and invoice agree to the cent", async () => {
    const discounts = fc.array(cents, { minLength: skus.length, maxLength: skus.length });
    await fc.assert(
      fc.asyncProperty(shop, discounts, fc.integer({ min: 0, max: 5_000 }), async (given, offs, discount_bps) => {
        const { tenant, services } = await filled(given);
        await addParty(tenant, discount_bps, 99_999_999);
        const deps = { ...services, store: tenant } as unknown as SourceDeps;
        const items = given.quantities.map((qty, at) => {
          return { product_id: skus[at] as string, qty, discount_cents: offs[at] };
        });

        const draft = await makeQuote(deps, acting, { account_id: "acme", buyer_id: "bo", items, notes: "" });
        await sendQuote(deps, draft.id, 14);
        await acceptQuote(deps, acting, draft.id);
        const { invoice } = await convertQuote(deps, acting, draft.id);

        const order = await orderById(tenant, invoice.order_id);
        const quote = await quoteById(tenant, draft.id);
        const { subtotal_cents, tax_cents, total_cents, discount_cents } = draft;
        assert.ok(order !== undefined && quote !== undefined);
        for (const one of [order, quote])
          assert.deepEqual(
            [one.subtotal_cents, one.tax_cents, one.total_cents, one.discount_cents],
            [subtotal_cents, tax_cents, total_cents, discount_cents],
          );
        assert.equal(invoice.amount_cents, total_cents);
        assert.equal(
          draft.items.reduce((all, line) => all + line.line_total_cents, 0),
          subtotal_cents,
        );
      }),
      { numRuns: runs(1_000) },
    );
  });
});
