import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { HttpContext } from "../../../http/context.ts";
import { isHeld } from "../../../http/exchange/kept-body.ts";
import { json, type Reply, text } from "../../../http/exchange/reply.ts";
import { publicUrlOf } from "../../../http/public-url.ts";
import { type Route, route } from "../../../http/route.ts";
import type { FoundBrand } from "../brands/brand-table.ts";
import { catalogVersion, pageBoundaries, productById, productPage } from "../catalog/products.ts";
import { storefrontNotFound } from "../core/shop-errors.ts";
import { rulesOf, withPublicPrices } from "../pricing/price-lookup.ts";
import { brandOfRequest, type RequestHead, storefrontParam } from "../storefront/storefront-brand.ts";
import { documentOf, listDocument, productDocument } from "./json-ld.ts";
import { productUrl } from "./product-page.ts";
import { addressesMax, type SitemapEntry, sitemapIndex, sitemapOf } from "./sitemap.ts";

// The pages that crawlers read: schema.org documents, a sitemap and robots.txt of a brand that publishes them. A brand is named by
// the path or by the Host header.

/** Products of a page of the feed (decision 296). */
const pageSize = 1_000;
/** Crawlers and proxies may show an answer for this time (shapes.md 11.3). */
const freshSeconds = 60;
const fails = [storefrontNotFound, "not_found", "storage_unavailable"] as const;
const after = Type.String({
  maxLength: 200,
  description: "The page begins after this SKU; absent for the first page.",
});

/** A brand that publishes its catalog, and the request. */
interface Asked {
  readonly brand: FoundBrand;
  readonly head: RequestHead;
  readonly context: HttpContext;
  /** Weak tag of everything that an answer is made from. */
  readonly etag: string;
  /** The address of the storefront's documents. */
  readonly base: string;
}

/** Returns the published brand. Refuses with storefront_not_found, also for a brand that publishes nothing. */
async function published(storefront: string | undefined, head: RequestHead, context: HttpContext): Promise<Asked> {
  const brand = await brandOfRequest(storefront, head, context);
  if (brand.status !== "active" || !brand.identity.structured_data.enabled) throw new SvcError(storefrontNotFound);
  const { version } = await catalogVersion(context.store.tenant(brand.brand_tenant));
  const base = `${publicUrlOf(head, context.settings)}/structured/${encodeURIComponent(brand.brand_tenant)}`;
  // Rules of prices depend on time and demand, so the documents of a catalog with rules hold for one interval.
  const hasRules = (await rulesOf(context.store.tenant(brand.brand_tenant))).length > 0;
  const interval = hasRules ? `-${Math.floor(context.env.now() / (1_000 * freshSeconds)).toString(36)}` : "";
  const etag = `W/"${brand.updated_at.toString(36)}-${version.toString(36)}${interval}"`;
  return { brand, head, context, etag, base };
}

/** Returns 304 if the client has this version; null otherwise. */
function unchangedReply({ etag, head }: Asked, contentType: string): Reply | null {
  const headers = { etag, "cache-control": `public, max-age=${freshSeconds}` };
  return isHeld(etag, head.headers["if-none-match"]) ? text("", contentType, headers, 304) : null;
}

/** Returns the answer, or 304 if the client has it. */
function cached({ etag, head }: Asked, contentType: string, body: string, more: Record<string, string> = {}): Reply {
  const headers = { etag, "cache-control": `public, max-age=${freshSeconds}`, ...more };
  return isHeld(etag, head.headers["if-none-match"])
    ? text("", contentType, headers, 304)
    : text(body, contentType, headers);
}

async function feed(asked: Asked, after: string | undefined): Promise<Reply> {
  const { brand, context, head, base } = asked;
  const known = unchangedReply(asked, "application/ld+json");
  if (known !== null) return known;
  const store = context.store.tenant(brand.brand_tenant);
  const { rows, next } = await productPage(store, { limit: pageSize, after, activeOnly: true });
  const priced = [...(await withPublicPrices(store, rows, context.env.now())).values()];
  const products = priced.map((row) => productDocument(brand, row, productUrl(brand, row, head, context.settings)));
  const link = next === null ? {} : { link: `<${pageUrl(base, "feed.jsonld", next)}>; rel="next"` };
  return cached(asked, "application/ld+json", listDocument(brand, products), link);
}

/** Returns the address of the page of a document after an SKU. */
function pageUrl(base: string, file: string, after: string): string {
  return `${base}/${file}?after=${encodeURIComponent(after)}`;
}

async function product(asked: Asked, id: string): Promise<Reply> {
  const { brand, context, head } = asked;
  const store = context.store.tenant(brand.brand_tenant);
  const known = await productById(store, id);
  const row = known && (await withPublicPrices(store, [known], context.env.now())).get(id);
  if (row === undefined || row.active === 0) throw new SvcError("not_found");
  const url = productUrl(brand, row, head, context.settings);
  return cached(asked, "application/ld+json", documentOf(productDocument(brand, row, url)));
}

async function sitemap(asked: Asked, after: string | undefined): Promise<Reply> {
  const { brand, context, base, etag } = asked;
  const headers = { etag, "cache-control": `public, max-age=${freshSeconds}` };
  const known = unchangedReply(asked, xml);
  if (known !== null) return known;
  if (after === undefined) {
    const boundaries = await pageBoundaries(context.store.tenant(brand.brand_tenant), addressesMax);
    // The first part has an address too: no SKU is empty.
    const parts = ["", ...boundaries].map((before) => pageUrl(base, "sitemap.xml", before));
    if (boundaries.length > 0) return text(sitemapIndex(parts), xml, headers);
  }
  return { kind: "pieces", contentType: xml, headers, pieces: sitemapOf(entries(asked, after)) };
}

const xml = "application/xml";

/** Yields the addresses of one sitemap in pages. */
async function* entries({ brand, context, head }: Asked, from: string | undefined): AsyncGenerator<SitemapEntry[]> {
  const store = context.store.tenant(brand.brand_tenant);
  let after = from;
  for (let left = addressesMax; left > 0; ) {
    const { rows, next } = await productPage(store, { limit: Math.min(pageSize, left), after, activeOnly: true });
    yield rows.map((row) => ({ url: productUrl(brand, row, head, context.settings), changedAt: row.ts }));
    if (next === null) return;
    after = next;
    left -= rows.length;
  }
}

function robots(asked: Asked): Reply {
  return cached(asked, "text/plain", `User-agent: *\nAllow: /\nSitemap: ${asked.base}/sitemap.xml\n`);
}

function aiCatalog({ brand, base, context, head, etag }: Asked): Reply {
  const shop = `${publicUrlOf(head, context.settings)}/shop/${encodeURIComponent(brand.brand_tenant)}`;
  const body = {
    version: "1",
    name: brand.name,
    description: brand.identity.greeting,
    feed: `${base}/feed.jsonld`,
    products: `${base}/products/{id}`,
    sitemap: `${base}/sitemap.xml`,
    chat: { url: `${shop}/chat` },
  };
  const headers = { etag, "cache-control": `public, max-age=${freshSeconds}` };
  return isHeld(etag, head.headers["if-none-match"])
    ? text("", "application/json", headers, 304)
    : json(body, 200, headers);
}

interface Kind {
  readonly file: string;
  readonly summary: string;
  readonly contentType: string;
  readonly example: string;
  readonly answer: (asked: Asked, after: string | undefined) => Reply | Promise<Reply>;
}

const kinds: readonly Kind[] = [
  {
    file: "feed.jsonld",
    summary: "A page of a brand's catalog as an ItemList of schema.org.",
    contentType: "application/ld+json",
    example: '{"@context":"https://schema.org","@type":"ItemList","name":"Acme","itemListElement":[]}',
    answer: feed,
  },
  {
    file: "sitemap.xml",
    summary: "The sitemap of a brand's products; an index of sitemaps above 50,000 products.",
    contentType: xml,
    example: '<?xml version="1.0" encoding="UTF-8"?>',
    answer: sitemap,
  },
  {
    file: "robots.txt",
    summary: "The robots.txt of a brand, which names its sitemap.",
    contentType: "text/plain",
    example: "User-agent: *",
    answer: robots,
  },
];

/** Returns the route of a document below a path; with `{storefront}` in it, the path names the brand. */
function documentRoute(path: string, kind: Kind): Route {
  const named = path.includes("{storefront}");
  return route({
    method: "GET",
    path,
    summary: named ? kind.summary : `${kind.summary.slice(0, -1)}, by the Host header.`,
    tag: "commerce",
    access: "public",
    anyHost: true,
    params: Type.Object(named ? { storefront: storefrontParam } : {}),
    query: Type.Object({ after: Type.Optional(after) }),
    reply: { description: "The document.", contentType: kind.contentType, example: kind.example },
    otherReplies: [unchanged],
    fails,
    async handle({ params, query, exchange: { head } }, context) {
      const { storefront } = params as { readonly storefront?: string };
      return kind.answer(await published(storefront, head, context), query.after);
    },
  });
}

const unchanged = { status: 304, description: "The client has this version.", contentType: "" };

function productRoute(named: boolean): Route {
  const id = Type.String({ maxLength: 200, description: "The SKU.", examples: ["boot-41"] });
  return route({
    method: "GET",
    path: named ? "/structured/{storefront}/products/{id}" : "/structured/products/{id}",
    summary: named ? "A product of schema.org." : "A product of schema.org, by the Host header.",
    tag: "commerce",
    access: "public",
    anyHost: true,
    params: Type.Object(named ? { storefront: storefrontParam, id } : { id }),
    reply: {
      description: "A Product with its Offer.",
      contentType: "application/ld+json",
      example: '{"@context":"https://schema.org","@type":"Product","sku":"boot-41"}',
    },
    otherReplies: [unchanged],
    fails,
    async handle({ params, exchange: { head } }, context) {
      const { storefront, id: sku } = params as { readonly storefront?: string; readonly id: string };
      return product(await published(storefront, head, context), sku);
    },
  });
}

const catalogRoute = route({
  method: "GET",
  path: "/.well-known/ai-catalog.json",
  summary: "The addresses of a brand's documents and chat, by the Host header.",
  tag: "commerce",
  access: "public",
  anyHost: true,
  reply: {
    description: "The addresses.",
    schema: Type.Object({
      version: Type.String({ examples: ["1"] }),
      name: Type.String({ examples: ["Acme Shoes"] }),
      description: Type.String({ examples: ["Hi!"] }),
      feed: Type.String({ examples: ["https://shop.example/structured/acme-shoes/feed.jsonld"] }),
      products: Type.String({ examples: ["https://shop.example/structured/acme-shoes/products/{id}"] }),
      sitemap: Type.String({ examples: ["https://shop.example/structured/acme-shoes/sitemap.xml"] }),
      chat: Type.Object({ url: Type.String({ examples: ["https://shop.example/shop/acme-shoes/chat"] }) }),
    }),
  },
  otherReplies: [unchanged],
  fails,
  handle: async ({ exchange: { head } }, context) => aiCatalog(await published(undefined, head, context)),
});

/** The routes of structured data, those by path and those by the Host header. */
export const structuredRoutes: readonly Route[] = [
  ...kinds.flatMap((kind) => [
    documentRoute(`/structured/{storefront}/${kind.file}`, kind),
    documentRoute(`/structured/${kind.file}`, kind),
  ]),
  ...kinds.filter(({ file }) => file !== "feed.jsonld").map((kind) => documentRoute(`/${kind.file}`, kind)),
  productRoute(true),
  productRoute(false),
  catalogRoute,
];
