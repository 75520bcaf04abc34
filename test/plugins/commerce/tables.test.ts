// The tables of the shop on both engines: every statement, and what the catalog and the orders promise under concurrency.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import { readSettings, settingOf } from "../../../governance/settings/settings.ts";
import { allMigrations } from "../../../host/all-migrations.ts";
import { collisions } from "../../../host/plugin-collisions.ts";
import { schemaIssues } from "../../../host/plugin-schemas.ts";
import { shapeProblems } from "../../../host/plugin-shape.ts";
import { payOrderOps } from "../../../plugins/commerce/b2b/quote-order.ts";
import { brandByHost, brandByStorefront } from "../../../plugins/commerce/brands/brand-lookup.ts";
import { addDomainOp, brandOfTenant, brandPage, insertBrandOp } from "../../../plugins/commerce/brands/brand-table.ts";
import { plainIdentity } from "../../../plugins/commerce/brands/identity.ts";
import { importCatalog, reindexCatalog } from "../../../plugins/commerce/catalog/catalog-import.ts";
import { searchProducts } from "../../../plugins/commerce/catalog/catalog-search.ts";
import { parseCatalog } from "../../../plugins/commerce/catalog/import-worker.ts";
import { productCorpus } from "../../../plugins/commerce/catalog/product-vectors.ts";
import {
  categoriesOf,
  pageBoundaries,
  productById,
  productPage,
  takeStockOp,
} from "../../../plugins/commerce/catalog/products.ts";
import { plugin } from "../../../plugins/commerce/commerce.ts";
import { applyRecords } from "../../../plugins/commerce/entities/apply.ts";
import { geoMonitorSetting } from "../../../plugins/commerce/geo/geo-settings.ts";
import { insertConsent, newestConsent } from "../../../plugins/commerce/orders/consents.ts";
import {
  attributionSummary,
  insertOrderOp,
  markOversoldOps,
  type OrderRow,
  openOrders,
  orderById,
  orderPage,
  setCancelledOp,
  setPaidOp,
} from "../../../plugins/commerce/orders/orders.ts";
import { noteBuyerOp, noteCartOp, noteOriginOp, sessionOf } from "../../../plugins/commerce/orders/sessions.ts";
import { migrate } from "../../../storage/migrate.ts";
import type { Store } from "../../../storage/store/store.ts";
import { storeVectors, vectorsAreOn } from "../../../storage/tables/vectors.ts";
import { noVectors } from "../../support/no-vectors.ts";
import { dialects, emptyDatabase, runStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const loaded = [{ from: "svc", plugin }];

test("the plugin has the shape of a plugin, and no name of svc", () => {
  assert.deepEqual(shapeProblems(plugin), []);
  assert.deepEqual(collisions(loaded), []);
  assert.deepEqual(schemaIssues(loaded), []);
});

test("COM-024 no argument of a tool is an amount or a tenant, but for two that only ask", () => {
  const named: string[] = [];
  const open: string[] = [];
  const visit = (tool: string, schema: Record<string, unknown>): void => {
    if (schema.type === "object" && schema.additionalProperties !== false) open.push(tool);
    for (const [name, inner] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>)) {
      if (/cents|price|amount|total|currency|tax|discount|tenant|thread|subject/.test(name))
        named.push(`${tool}.${name}`);
      visit(tool, inner);
    }
    if (schema.items !== undefined) visit(tool, schema.items as Record<string, unknown>);
  };

  const { tools = [] } = plugin;
  for (const { name, parameters } of tools) visit(name, parameters as unknown as Record<string, unknown>);

  assert.ok(tools.length >= 24);
  assert.deepEqual(named.toSorted(), ["catalog_search.max_price_cents", "purchase_authority_check.amount_cents"]);
  assert.deepEqual(open, []);
});

test("STRIPE_API_BASE is refused in production", () => {
  const { settings = [] } = plugin;
  const reasons = (environment: string) =>
    readSettings({ SVC_ENVIRONMENT: environment, STRIPE_API_BASE: "https://stand-in.example" }, settings).issues;

  assert.deepEqual(reasons("production"), [{ name: "STRIPE_API_BASE", reason: "is not for production" }]);
  assert.deepEqual(reasons("development"), []);
});

test("OPS-022 revisions of the shop are 0006 to 0018, and sort before 0100", () => {
  const own = (plugin.migrations ?? []).map(({ revision }) => revision);
  const all = allMigrations(loaded).map(({ revision }) => revision);

  assert.ok(own.length > 3 && own.every((revision) => /^00(0[6-9]|1[0-8])$/.test(revision)));
  assert.deepEqual(all, all.toSorted());
  assert.ok((plugin.migrations ?? []).every(({ name }) => name.startsWith("commerce_")));
});

const unitVector = (at: number) => new Float32Array(8).fill(0).with(at, 1);
const inWords = (words: string) => ({ words, vector: null });

for (const dialect of dialects)
  describe(`tables of the shop on ${dialect}`, () => {
    const atEnd = cleanup();
    const env = systemEnv();
    let store: Store;

    before(async () => {
      const config = await emptyDatabase(dialect, atEnd);
      const { migrations } = await import("../../../storage/migrations/list.ts");
      // The schema of svc first, as in a deployment from before the shop.
      await migrate(config, { target: "head", downgrade: false }, migrations);
      await migrate(config, { target: "head", downgrade: false }, allMigrations(loaded));
      await migrate(config, { target: "head", downgrade: false }, migrations);
      ({ store } = await runStore(config, atEnd));
    });

    const deps = () => ({
      env,
      store,
      ...{ productsMax: 1_000, textVectors: noVectors(env, store) },
      compute: { run: (_: unknown, task: never) => parseCatalog(task) },
    });
    const load = (tenantId: string, products: object[], mode: "upsert" | "replace" = "upsert") => {
      const bytes = new TextEncoder().encode(JSON.stringify({ products }));
      return importCatalog({ format: "json", bytes, currency: "usd", tenantId }, mode, deps() as never);
    };

    test("an import is found by its words, by its own tenant alone, and replaced", async () => {
      const lamp = { id: "L1", title: "Brass lamps", price_cents: 100, category: "Light", attrs: { colour: "green" } };
      await load("a", [lamp, { id: "L2", title: "Chair", price_cents: 200 }]);
      await load("b", [{ id: "L1", title: "Other", price_cents: 1 }]);
      const found = await searchProducts(store.tenant("a"), inWords("lamp green"), { category: "Light" }, 5);
      const foreign = await searchProducts(store.tenant("b"), inWords("lamp"), {}, 5);
      const dear = await searchProducts(store.tenant("a"), inWords(""), { max_price_cents: 150 }, 5);
      const { imported, deactivated } = await load("a", [{ ...lamp, title: "Torch", category: "" }], "replace");

      assert.deepEqual(
        found.map(({ id }) => id),
        ["L1"],
      );
      assert.deepEqual(foreign, []);
      assert.deepEqual(
        dear.map(({ id }) => id),
        ["L1"],
      );
      assert.deepEqual([imported, deactivated], [1, 1]);
      assert.deepEqual(await searchProducts(store.tenant("a"), inWords("brass"), {}, 5), []);
      assert.deepEqual(
        (await searchProducts(store.tenant("a"), inWords("torch"), {}, 5)).map(({ id }) => id),
        ["L1"],
      );
      assert.deepEqual(await categoriesOf(store.tenant("a"), 5), []);
      assert.equal(await reindexCatalog(store, "a", noVectors(env, store)), 2);
    });

    test("COM-018 SHOP-003 new texts of active products are queued for vectors, prices alone are not", async () => {
      const tenant = store.tenant("vectors");
      const model = { model: "m", dimensions: 8 };
      const textVectors = { queuedModel: async () => model, wake() {} };
      const bring = (...products: object[]) => {
        const bytes = new TextEncoder().encode(JSON.stringify({ products }));
        const task = { format: "json", bytes, currency: "usd", tenantId: "vectors" } as const;
        return importCatalog(task, "upsert", { ...deps(), textVectors } as never);
      };
      const queued = async () => (await productCorpus.queued(tenant, 10)).map(({ text }) => text);
      const embed = async () => {
        const texts = await productCorpus.queued(tenant, 10);
        const made = texts.map(({ key, ts }, at) => ({ key, ts, vector: unitVector(at) }));
        await storeVectors(tenant, "products", model, made);
      };
      const nearFirst = async (filter: object) => {
        if (!(await vectorsAreOn(store.system))) return [];
        const query = { words: "", vector: { ...model, vector: unitVector(0) } };
        return (await searchProducts(tenant, query, filter, 5)).map(({ id }) => id);
      };
      const lamp = { id: "L", title: "Lamp", price_cents: 1, category: "Light", attrs: { colour: "green", on: true } };

      await bring(
        lamp,
        { id: "C", title: "Chair", price_cents: 1 },
        { id: "X", title: "Off", price_cents: 1, active: false },
      );
      const first = await queued();
      await embed();
      await bring({ ...lamp, price_cents: 2 });
      const repriced = await queued();
      const near = await nearFirst({});
      const cheap = await nearFirst({ max_price_cents: 1 });
      await bring({ id: "C", title: "Chair", price_cents: 1, active: false });
      const active = await nearFirst({});
      await bring({ id: "C", title: "Chair", price_cents: 1 });
      await bring({ ...lamp, title: "Torch" });
      const renamed = await queued();
      await bring({ id: "X", title: "Off", price_cents: 1 });
      const activated = await queued();
      await reindexCatalog(store, "vectors", textVectors);

      assert.deepEqual(first, ["Lamp\nLight\ncolour: green", "Chair"]);
      assert.deepEqual(repriced, []);
      assert.deepEqual(renamed, ["Torch\nLight\ncolour: green"]);
      assert.deepEqual(activated, ["Torch\nLight\ncolour: green", "Off"]);
      assert.deepEqual(await queued(), ["Torch\nLight\ncolour: green", "Chair", "Off"]);
      if (await vectorsAreOn(store.system)) assert.deepEqual([near, cheap, active], [["L", "C"], ["C"], ["L"]]);
      const { embedded, queued: waiting } = await productCorpus.count(store, model);
      assert.deepEqual([embedded, waiting], [1, 3]);
    });

    test("pages of products continue after an SKU, and boundaries name the last SKU before each page", async () => {
      const many = Array.from({ length: 7 }, (_, at) => ({ id: `P${at}`, title: "x", price_cents: 1 }));
      await load("paged", [...many, { id: "P3x", title: "Off", price_cents: 1, active: false }]);
      const paged = store.tenant("paged");
      const pages: string[][] = [];
      for (let after: string | null = ""; after !== null; ) {
        const { rows, next }: { rows: { id: string }[]; next: string | null } = await productPage(paged, {
          ...{ limit: 3, after, activeOnly: true },
        });
        pages.push(rows.map(({ id }) => id));
        after = next;
      }
      const skipped = await productPage(paged, { limit: 2, offset: 3, activeOnly: false });

      assert.deepEqual(pages, [["P0", "P1", "P2"], ["P3", "P4", "P5"], ["P6"]]);
      assert.deepEqual(await pageBoundaries(paged, 3), ["P2", "P5"]);
      assert.deepEqual(await pageBoundaries(paged, 7), []);
      assert.deepEqual([skipped.rows.map(({ id }) => id), skipped.next], [["P3", "P3x"], "P3x"]);
    });

    test("a catalog holds no more products than it may", async () => {
      const many = Array.from({ length: 1_001 }, (_, at) => ({ id: `P${at}`, title: "x", price_cents: 1 }));

      await assert.rejects(load("full", many), ({ code }: { code: string }) => code === "catalog_full");
    });

    test("brands are unique by their tenant and by their hosts", async () => {
      const brand = (brand_tenant: string) => ({
        ...{ id: "one", ts: 1, brand_tenant, name: "One", identity: plainIdentity, status: "active" as const },
        ...{ manifest: "brand-one", manifest_version: 1, updated_at: 1 },
      });
      const [own, other] = [store.tenant("op1"), store.tenant("op2")];
      await own.write([insertBrandOp(own, brand("t1")), addDomainOp(own, "one", "one.example", 1)]);

      await assert.rejects(other.write([insertBrandOp(other, brand("t1"))]));
      await other.write([insertBrandOp(other, brand("t2"))]);
      await assert.rejects(other.write([addDomainOp(other, "one", "one.example", 1)]));
      assert.equal((await brandByHost(store, "one.example"))?.operator_tenant, "op1");
      assert.equal((await brandByStorefront(store, "t2"))?.operator_tenant, "op2");
      assert.equal((await brandOfTenant(store.tenant("t2")))?.id, "one");
      assert.equal((await brandPage(own, {}, null, 5)).rows.length, 1);
    });

    const order = (id: string, items: OrderRow["items"]): OrderRow => ({
      ...{ id, ts: 1, status: "pending", channel: "chat", thread_id: "a:t", cart_version: 1, account_id: null },
      ...{ buyer_subject: null, email: null, manifest_id: "m", consent_id: null, items, subtotal_cents: 1 },
      ...{ discount_cents: 0, shipping_cents: 0, tax_cents: 0, total_cents: 1, currency: "usd", shipping: null },
      ...{ session_id: null, checkout_url: null, payment_ref: null, refunded_cents: 0, oversold: 0, cleared: 0 },
      ...{ paid_at: null, updated_at: 1 },
    });

    test("COM-002 twenty payments at once for five units mark fifteen orders, and stock ends at 0", async () => {
      const tenant = store.tenant("stock");
      await load("stock", [
        { id: "X", title: "x", price_cents: 1, inventory: 5 },
        { id: "Y", title: "y", price_cents: 1, inventory: -1 },
      ]);
      const line = (product_id: string) => ({ product_id, title: "x", qty: 1, price_cents: 1 });
      const ids = Array.from({ length: 20 }, (_, at) => `o${String(at).padStart(2, "0")}`);
      for (const [at, id] of ids.entries())
        await tenant.write([
          insertOrderOp(tenant, order(id, at % 2 ? [line("X"), line("Y")] : [line("Y"), line("X")])),
        ]);
      const pay = (id: string) =>
        orderById(tenant, id).then((row) =>
          tenant.write([
            setPaidOp(tenant, id, { ref: "p", tax_cents: 0, email: null }, 2),
            ...markOversoldOps(tenant, row as OrderRow),
            takeStockOp(tenant, "X", 1),
            takeStockOp(tenant, "Y", 1),
          ]),
        );

      const ends = await Promise.allSettled([...ids, ...ids].map(pay));

      assert.equal(ends.filter(({ status }) => status === "fulfilled").length, 20);
      const { rows } = await orderPage(tenant, { status: "paid" }, null, 50);
      assert.equal(rows.filter(({ oversold }) => oversold === 1).length, 15);
      assert.deepEqual(
        [(await productById(tenant, "X"))?.inventory, (await productById(tenant, "Y"))?.inventory],
        [0, -1],
      );
      assert.deepEqual(await attributionSummary(tenant, 0, 10), []);
    });

    test("COM-002 a quote's order is no order of the cart, and money for a cancelled one makes it paid", async () => {
      const tenant = store.tenant("quotes");
      const items = [{ product_id: "X", title: "x", qty: 1, price_cents: 1 }];
      await tenant.write([
        insertOrderOp(tenant, { ...order("cart", items), thread_id: "quotes:t" }),
        insertOrderOp(tenant, { ...order("quote", items), thread_id: "quotes:t", cart_version: -1 }),
        insertOrderOp(tenant, { ...order("returned", items), status: "cancelled", refunded_cents: 1 }),
      ]);
      const pay = (id: string) => payOrderOps({ store: tenant, env, mask: new SecretMask([]) }, id, "invoice", 3);

      const open = await openOrders(tenant, "quotes:t");
      await tenant.write([setCancelledOp(tenant, "quote", 2)]);
      await tenant.write(await pay("quote"));

      assert.deepEqual(
        open.map(({ id }) => id),
        ["cart"],
      );
      assert.equal((await orderById(tenant, "quote"))?.status, "paid");
      assert.deepEqual([await pay("quote"), await pay("returned")], [[], []]);
    });

    test("COM-008 a product keeps the time of its source, so a change from before its import is applied", async () => {
      const to = { env, store, tenantId: "synced", textVectors: noVectors(env, store) };
      const put = (updated_at: number, title: string) =>
        applyRecords(to, "product", [{ id: "P", title, price_cents: 1, updated_at }]);

      const first = await put(1_000, "First");
      const newer = await put(2_000, "Newer");
      const older = await put(1_500, "Older");

      assert.deepEqual([first.applied, newer.applied, older.skipped], [1, 1, 1]);
      const row = await productById(store.tenant("synced"), "P");
      assert.deepEqual([row?.title, row?.ts], ["Newer", 2_000]);
    });

    test("facts of a thread and consents keep the newest", async () => {
      const tenant = store.tenant("facts");
      const cart = { thread_id: "facts:t", cart_at: 1, cart_items: 1, cart_total_cents: 5, currency: "usd" };
      await tenant.write([noteBuyerOp(tenant, "facts:t", "ann@example.com", 1)]);
      await tenant.write([noteOriginOp(tenant, "facts:t", { channel: "widget", utm: { source: "x" }, now: 2 })]);
      await tenant.write([noteCartOp(tenant, { ...cart, cart_version: 9 })]);
      await tenant.write([noteCartOp(tenant, { ...cart, cart_version: 3, cart_items: 7 })]);
      const consent = {
        thread_id: "facts:t",
        subject: "s",
        channel: "chat",
        scopes: ["terms"],
        terms_version: "",
        policy_url: "",
      };
      await tenant.write([insertConsent(tenant, { ...consent, id: "1", ts: 1, granted: 1 })]);
      await tenant.write([insertConsent(tenant, { ...consent, id: "2", ts: 2, granted: 0 })]);

      const row = await sessionOf(tenant, "facts:t");
      assert.deepEqual(
        [row?.channel, row?.buyer_subject, row?.cart_version, row?.cart_items],
        ["widget", "ann@example.com", 9, 1],
      );
      assert.equal((await newestConsent(tenant, "facts:t"))?.granted, 0);
    });
  });

test("SHOP-002 a CSV file of 100,000 rows, half of them broken, is read and bounded", async () => {
  const rows = Array.from({ length: 100_000 }, (_, at) =>
    at % 2 ? `S${at},Lamp ${at},12.5` : `S${at},Lamp ${at},1250`,
  );
  const bytes = new TextEncoder().encode(["id,title,price_cents", ...rows].join("\n"));

  const parsed = await parseCatalog({ format: "csv", bytes, currency: "usd", tenantId: "a" });

  assert.deepEqual(
    [parsed.products, parsed.error_count, parsed.errors.length, parsed.refusal],
    [50_000, 50_000, 1_000, null],
  );
  assert.equal(parsed.batches.length, 50);
});

test("SHOP-002 a catalog above the bounds is refused as a whole", async () => {
  const parse = (format: "csv" | "json", text: string) =>
    parseCatalog({ format, bytes: new TextEncoder().encode(text), currency: "usd", tenantId: "a" });
  const products = Array.from({ length: 5_001 }, (_, at) => ({ id: `J${at}`, title: "x", price_cents: 1 }));
  const rows = Array.from({ length: 100_001 }, (_, at) => `S${at}`);

  const json = await parse("json", JSON.stringify({ products }));
  const csv = await parse("csv", ["id,title,price_cents", ...rows].join("\n"));

  assert.match(json.refusal ?? "", /more than 5000 items/);
  assert.match(csv.refusal ?? "", /more than 100000 rows/);
});

test("GEO-003 a malformed field of GEO_MONITOR has its default", () => {
  const read = (given: object) =>
    settingOf(readSettings({ GEO_MONITOR: JSON.stringify(given) }, plugin.settings).settings, geoMonitorSetting);

  assert.deepEqual(read({ max_queries_per_tick: 201, gen_model: 7, extract_model: "judge" }), {
    ...{ max_queries_per_tick: 20, gen_model: "", extract_model: "judge" },
  });
  assert.equal(read({ max_queries_per_tick: 200 }).max_queries_per_tick, 200);
  assert.equal(read({ max_queries_per_tick: -1 }).max_queries_per_tick, 20);
});

test("SHOP-002 files that are no CSV are refused as a whole or row by row, and never hang", async () => {
  const read = (text: string) =>
    parseCatalog({ format: "csv", bytes: new TextEncoder().encode(text), currency: "usd", tenantId: "a" });
  const head = "id,title,price_cents\n";

  assert.match((await read("")).refusal ?? "", /no header/);
  assert.match((await read("id,title\n1,2")).refusal ?? "", /price_cents/);
  assert.match((await read("id,id,title,price_cents\n")).refusal ?? "", /repeats/);
  const open = await read(`${head}A,"never closed,100\n${"x".repeat(200_000)}`);
  assert.equal(open.products, 0);
  assert.ok(open.refusal !== null || open.error_count > 0);
  const strange = await read(
    `${head}A,\u0000,100\nB,Lamp,1e3\nC,Lamp,-5\nD,Lamp,999999999999\n__proto__,Lamp,1\nE,Lamp,7`,
  );
  assert.deepEqual([strange.products, strange.error_count], [1, 5]);
});
