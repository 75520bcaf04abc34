// The screens that the shop brings to the console: orders, catalogs and quotes.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { findProblems } from "../support/console-browser.ts";
import { evil, type SharedConsole } from "./shared.ts";

/** The products of a brand, one with a hostile title. */
const products = [
  { id: "lamp", title: "Desk lamp", price_cents: 4_900, category: "Lamps", inventory: 3 },
  { id: "evil", title: evil.slice(0, 200), price_cents: 1, inventory: 0 },
];

export function shopTests(shared: SharedConsole): void {
  const { keys, leave, open, post, ready, visit } = shared;
  const get = (path: string) => shared.server.get(path, { key: keys.admin });

  /** True if a keyboard reaches the page and nothing is wider than a phone. */
  async function assertSound(page: Page): Promise<void> {
    assert.deepEqual(await findProblems(page), []);
    assert.equal(await page.evaluate("document.documentElement.scrollWidth > innerWidth"), false);
    assert.equal(await page.evaluate("window.pwned"), undefined);
  }

  test("Catalog and Quotes say what to do where there is nothing", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/catalog", 360);
    await page.getByText("No brand yet").waitFor();
    await assertSound(page);
    await page.goto(`${shared.server.url}/console#/quotes`);
    await page.getByText("No quote yet").waitFor();
    await page.getByRole("button", { name: "Invoices" }).press("Enter");
    await page.getByText("No invoice yet").waitFor();
    await assertSound(page);
    leave(page);
  });

  test("Catalog imports JSON and CSV, names broken rows, and builds the index anew", async (t) => {
    if (!ready(t)) return;
    const made = await post("/brands", { id: "lumen", name: "Lumen", brand_tenant: "acme" });
    assert.equal(made.status, 201, made.text);
    const page = await visit("#/catalog", 360);
    await page.getByText("No product yet").waitFor();
    const picker = page.getByLabel("File of products");

    await picker.setInputFiles({
      ...{ name: "products.json", mimeType: "application/json" },
      buffer: Buffer.from(JSON.stringify({ products })),
    });
    await page.getByText("Desk lamp").waitFor();
    await page.getByText("sold out").waitFor();
    await assertSound(page);
    const csv = "id,title,price_cents\nchair,Chair,12000\nbroken,Broken,1.5\n";
    await picker.setInputFiles({ name: "more.csv", mimeType: "text/csv", buffer: Buffer.from(csv) });
    await page.getByText("1 row was not imported").waitFor();
    await page.getByText("$120.00").waitFor();
    await page.getByRole("button", { name: "Reindex" }).press("Enter");

    await page.getByText("Indexed 3 products").waitFor();
    await assertSound(page);
    leave(page);
  });

  test("Quotes moves a quote to its order and invoice by keyboard, and Orders shows it", async (t) => {
    if (!ready(t)) return;
    const account = { id: "acme-inc", name: "Acme", payment_terms: "net30", credit_limit_cents: 100_000 };
    await post("/b2b/accounts", account);
    await post("/b2b/accounts/acme-inc/buyers", { id: "bo", spending_limit_cents: 100_000 });
    const items = [{ product_id: "lamp", qty: 2 }];
    const quote = await post("/b2b/quotes", { account_id: "acme-inc", buyer_id: "bo", items, notes: evil });
    assert.equal(quote.status, 201, quote.text);
    const page = await visit("#/quotes", 360);
    await page.getByRole("link", { name: /acme-inc/ }).press("Enter");

    for (const [word, after] of [
      ["Send", "sent"],
      ["Accept", "accepted"],
      ["Convert", "ordered"],
    ] as const) {
      await page.getByRole("button", { name: word, exact: true }).press("Enter");
      await page.getByRole("button", { name: `${word} it` }).press("Enter");
      await page.locator(".chip", { hasText: after }).waitFor();
    }
    await assertSound(page);
    await page.getByRole("link", { name: /^ord_/ }).press("Enter");
    await page.locator(".chip", { hasText: "pending" }).waitFor();
    await page.getByText("$98.00").first().waitFor();
    await assertSound(page);
    await page.goto(`${shared.server.url}/console#/quotes?tab=invoices`);
    await page.getByRole("button", { name: "Pay" }).press("Enter");
    await page.getByRole("button", { name: "Pay it" }).press("Enter");
    await page.locator(".chip", { hasText: "paid" }).waitFor();
    await page.goto(`${shared.server.url}/console#/orders?status=paid`);
    await page.getByText("2 × Desk lamp").waitFor();
    await assertSound(page);
    await page.getByRole("button", { name: "Cancelled" }).press("Enter");

    await page.getByText("No order is cancelled").waitFor();
    assert.equal((await get("/commerce/orders?status=paid")).json.items.length, 1);
    leave(page);
  });

  test("Orders shows a failed read with its reason, and reads again", async (t) => {
    if (!ready(t)) return;
    const page = await visit("#/orders/order_unknown", 360);
    await page.getByRole("alert").waitFor();
    await assertSound(page);
    leave(page);
    const reader = await open({ key: keys.reader, at: "#/orders" });
    await reader.getByText("This key lacks").waitFor();
    await reader.close();
  });
}
