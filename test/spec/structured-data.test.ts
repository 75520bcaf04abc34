// The documents of a brand for crawlers, over real requests.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import jsonld from "jsonld";
import { startChat } from "../support/chat.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { seedBrand } from "../support/shop.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  operator: { tenant_id: "mall", scopes: ["*"] },
  other: { tenant_id: "umbra", scopes: ["*"] },
});
const products = [
  {
    id: "boot-41",
    title: "Boot <41> & co",
    description: "Warm.",
    price_cents: 1999,
    inventory: 3,
    category: "Boots",
    image_url: "https://img.example/b.png",
  },
  { id: "sock", title: "Sock", price_cents: 500, inventory: 0 },
  { id: "hat", title: "Hat", price_cents: 700, active: false },
  { id: "glove", title: "Glove", price_cents: 900, inventory: -1, attrs: { url: "https://shop.example/g" } },
];
/** The part of the vocabulary of schema.org that the documents use, so that no context is fetched. */
const context = { "@vocab": "https://schema.org/" };

describe("structured data", () => {
  const atEnd = cleanup();
  let server: TestServer;
  const host = { headers: { host: "shoes.example" } };
  before(async () => {
    const settings = { ...env, SVC_COMMERCE_ENABLED: "true", SVC_COMMERCE_BASE_MANIFEST: "seller" };
    ({ server } = await startChat(atEnd, { models: ["seller"], manifests: { seller: {} }, env: settings }));
    await seedBrand(server, keys.operator, {
      ...{ id: "shoes", name: "Shoes", domains: ["shoes.example"], products },
      identity: { greeting: "Hi!", structured_data: { enabled: true } },
    });
    await seedBrand(server, keys.operator, { id: "quiet", name: "Quiet", domains: ["quiet.example"], products });
  });

  const expanded = async (text: string): Promise<Record<string, unknown>[]> => {
    const { "@context": said, ...document } = JSON.parse(text);
    assert.equal(said, "https://schema.org");
    return (await jsonld.expand({ "@context": context, ...document })) as Record<string, unknown>[];
  };
  const term = (name: string): string => `https://schema.org/${name}`;

  test("SHOP-009 the feed lists active products with their offers, and products have documents of their own", async () => {
    const feed = await server.get("/structured/shoes/feed.jsonld");
    const [list] = await expanded(feed.text);
    const one = await server.get("/structured/shoes/products/boot-41");
    const [product] = await expanded(one.text);

    assert.equal(feed.headers["content-type"], "application/ld+json");
    const items = list?.[term("itemListElement")] as Record<string, { "@value": unknown }[]>[];
    assert.deepEqual(
      items.map((item) => item[term("position")]?.[0]?.["@value"]),
      [1, 2, 3],
    );
    const { itemListElement } = JSON.parse(feed.text);
    assert.deepEqual(
      itemListElement.map(({ item }: { item: { sku: string } }) => item.sku),
      ["boot-41", "glove", "sock"],
    );
    assert.deepEqual(product?.["@type"], [term("Product")]);
    const { offers, ...own } = JSON.parse(one.text);
    assert.deepEqual(own, {
      ...{
        "@context": "https://schema.org",
        "@type": "Product",
        sku: "boot-41",
        name: "Boot <41> & co",
        description: "Warm.",
      },
      ...{ image: "https://img.example/b.png", brand: { "@type": "Brand", name: "Shoes" }, category: "Boots" },
    });
    assert.deepEqual(offers, {
      ...{ "@type": "Offer", price: "19.99", priceCurrency: "USD", availability: "https://schema.org/InStock" },
      url: `${server.url}/structured/shoes/products/boot-41`,
    });
    const sock = JSON.parse((await server.get("/structured/shoes/products/sock")).text);
    const glove = JSON.parse((await server.get("/structured/shoes/products/glove")).text);
    assert.equal(sock.offers.availability, "https://schema.org/OutOfStock");
    assert.equal(glove.offers.url, "https://shop.example/g");
    for (const id of ["hat", "none", "%00"])
      assert.notEqual((await server.get(`/structured/shoes/products/${id}`)).status, 200);
  });

  test("SHOP-010 each document answers below its storefront, by host, and the crawlers' files at the root", async () => {
    const rows = [
      ["/structured/shoes/sitemap.xml", {}, "application/xml", /<loc>[^<]*boot-41<\/loc>/],
      ["/structured/sitemap.xml", host, "application/xml", /<urlset/],
      ["/structured/robots.txt", host, "text/plain", /Sitemap: .*\/structured\/shoes\/sitemap\.xml/],
      ["/structured/feed.jsonld", host, "application/ld+json", /boot-41/],
      ["/structured/products/sock", host, "application/ld+json", /"sku":"sock"/],
      ["/robots.txt", host, "text/plain", /User-agent: \*/],
      ["/sitemap.xml", host, "application/xml", /<urlset/],
      ["/.well-known/ai-catalog.json", host, "application/json", /"chat":\{"url":".*\/shop\/shoes\/chat"\}/],
    ] as const;
    for (const [path, options, type, body] of rows) {
      const answer = await server.get(path, options);

      assert.equal(answer.status, 200, `${path} ${answer.text}`);
      assert.equal(answer.headers["content-type"], type, path);
      assert.match(answer.text, body, path);
    }
    assert.doesNotMatch((await server.get("/structured/shoes/sitemap.xml")).text, /hat/);
  });

  test("SHOP-011 a brand that publishes nothing is not found, and answers have weak tags", async () => {
    for (const [path, headers] of [
      ["/structured/quiet/feed.jsonld", {}],
      ["/structured/nobody/feed.jsonld", {}],
      ["/robots.txt", { host: "quiet.example" }],
      ["/robots.txt", { host: "unknown.example" }],
      ["/robots.txt", {}],
    ] as const) {
      const answer = await server.get(path, { headers });
      assert.deepEqual([answer.status, answer.json.error], [404, "storefront_not_found"], path);
    }
    const first = await server.get("/structured/shoes/feed.jsonld");
    const etag = first.headers.etag ?? "";
    assert.match(etag, /^W\/"/);
    assert.match(first.headers["cache-control"] ?? "", /^public, max-age=\d+$/);
    for (const path of ["feed.jsonld", "sitemap.xml", "robots.txt", "products/sock"]) {
      const again = await server.get(`/structured/shoes/${path}`, { headers: { "if-none-match": etag } });
      assert.deepEqual([again.status, again.text], [304, ""], path);
    }

    await seedBrand(server, keys.operator, {
      id: "shoes",
      name: "Shoes",
      domains: [],
      products: [{ ...products[1], inventory: 5 }],
    });

    const changed = await server.get("/structured/shoes/products/sock", { headers: { "if-none-match": etag } });
    assert.equal(changed.status, 200);
    assert.match(changed.text, /InStock/);
  });
});
