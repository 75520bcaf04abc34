import { SvcError } from "../../../bus/errors.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { Type } from "../../../bus/type.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { PluginAuditType } from "../../../governance/audit-types.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { HttpContext } from "../../../http/context.ts";
import { json } from "../../../http/exchange/reply.ts";
import { actorFails, route } from "../../../http/route.ts";
import { importCatalog, reindexCatalog } from "../catalog/catalog-import.ts";
import { importBytesMax } from "../catalog/import-job.ts";
import { productOf, productPage } from "../catalog/products.ts";
import { isCurrency } from "../core/money.ts";
import {
  brandChanged,
  brandExists,
  catalogFull,
  domainTaken,
  invalidCatalog,
  invalidDomain,
  shopUnset,
} from "../core/shop-errors.ts";
import { baseManifestSetting, productsMaxSetting } from "../core/shop-settings.ts";
import { readDomain } from "./brand-host.ts";
import { manifestOfBrand, provisionManifest } from "./brand-manifest.ts";
import {
  addDomainOp,
  type BrandRow,
  brandById,
  brandPage,
  deleteBrandOps,
  domainsMax,
  domainsOf,
  insertBrandOp,
  removeDomain,
  updateBrandOp,
} from "./brand-table.ts";
import { refuseForeignTenant } from "./brand-tenant.ts";
import { type GivenIdentity, IdentityGiven, mergedIdentity, plainIdentity } from "./identity.ts";

const tag = "commerce";
const writeScopes = ["brands:write"];
const closed = { additionalProperties: false } as const;

/** The audit types of brands. */
export const brandProvisioned: PluginAuditType = {
  name: "brand_provisioned",
  help: "A brand was created or changed, with its manifest.",
};
export const brandCatalogImport: PluginAuditType = {
  name: "brand_catalog_import",
  help: "Products of a brand were imported.",
};

const BrandId = Type.String({ description: "Id of the brand.", examples: ["lumen"] });
const BrandParams = Type.Object({ id: BrandId });
const Brand = Type.Object({
  tenant_id: Type.String({ description: "The tenant of the operator.", examples: ["default"] }),
  id: BrandId,
  brand_tenant: Type.String({ description: "The tenant with products, threads and orders.", examples: ["lumen"] }),
  name: Type.String({ examples: ["Lumen"] }),
  identity: Type.Object({}, { additionalProperties: true, examples: [plainIdentity] }),
  status: Type.String({ examples: ["active"] }),
  created_at: Type.Integer({ examples: [1_700_000_000_000] }),
  updated_at: Type.Integer({ examples: [1_700_000_000_000] }),
});
const Name = Type.String({ minLength: 1, maxLength: 200, description: "Name of the brand.", examples: ["Lumen"] });
const Slug = Type.String({
  pattern: "^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$",
  description: "1 to 64 lower-case letters, digits and hyphens.",
  examples: ["lumen"],
});

/** Returns a brand as routes show it. */
function brandView(tenant_id: string, row: BrandRow): Readonly<Record<string, unknown>> {
  const { id, brand_tenant, name, identity, status, ts, updated_at } = row;
  return { tenant_id, id, brand_tenant, name, identity, status, created_at: ts, updated_at };
}

const createBrand = route({
  method: "POST",
  path: "/brands",
  summary: "Creates a brand with the manifest of its storefront.",
  tag,
  access: writeScopes,
  body: Type.Object(
    {
      id: Slug,
      name: Name,
      brand_tenant: Type.Optional(Slug),
      identity: Type.Optional(IdentityGiven),
    },
    closed,
  ),
  reply: {
    status: 201,
    description: "The brand, and its manifest.",
    schema: Type.Object({
      brand: Brand,
      manifest: Type.Object({
        name: Type.String({ examples: ["brand-lumen"] }),
        version: Type.Integer({ examples: [1] }),
      }),
    }),
  },
  fails: [brandExists, shopUnset, "invalid_request", "invalid_manifest", "unknown_manifest", ...actorFails],
  async handle({ body, principal }, context) {
    const { store, env, settings } = context;
    if (settings.manifestSource === "bundled") throw new SvcError(shopUnset);
    const { id, name, brand_tenant = id } = body;
    const identity = mergedIdentity(plainIdentity, (body.identity ?? {}) as GivenIdentity);
    refuseCurrency(identity.currency);
    const tenant = store.tenant(principal.tenant_id);
    if ((await brandById(tenant, id)) !== undefined) throw new SvcError(brandExists, { detail: id });
    await refuseForeignTenant(brand_tenant, principal, context);
    const now = env.now();
    const row: BrandRow = {
      ...{ id, ts: now, brand_tenant, name, identity, status: "active", manifest: manifestOfBrand(id) },
      ...{ manifest_version: 0, updated_at: now },
    };
    // The row reserves id and tenant before anything is written under that tenant.
    await tenant.write([insertBrandOp(tenant, row)]).catch((error: unknown) => {
      throw isConflict(error) ? new SvcError(brandExists, { detail: id }) : error;
    });
    const version = await provisioned(row, principal, context).catch(async (error: unknown) => {
      await tenant.write(deleteBrandOps(tenant, id));
      throw error;
    });
    const made = { ...row, manifest_version: version };
    await tenant.write([updateBrandOp(tenant, made, row), provisionedOp(made, principal, context)]);
    return json({ brand: brandView(principal.tenant_id, made), manifest: { name: row.manifest, version } }, 201);
  },
});

const listBrands = route({
  method: "GET",
  path: "/brands",
  summary: "Brands, newest first.",
  tag,
  access: "authenticated",
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 100, description: "Brands per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "Brands of the tenant.",
    schema: Type.Object({
      brands: Type.Array(Brand),
      next_cursor: Type.Union([Type.String(), Type.Null()], { examples: [null] }),
    }),
  },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query: { limit, cursor = null }, principal: { tenant_id } }, { store }) {
    const { rows, next_cursor } = await brandPage(store.tenant(tenant_id), {}, cursor, limit);
    return json({ brands: rows.map((row) => brandView(tenant_id, row)), next_cursor });
  },
});

const getBrand = route({
  method: "GET",
  path: "/brands/{id}",
  summary: "A brand.",
  tag,
  access: "authenticated",
  params: BrandParams,
  reply: { description: "The brand.", schema: Brand },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, principal: { tenant_id } }, { store }) {
    return json(brandView(tenant_id, await ownBrand(store, tenant_id, id)));
  },
});

const patchBrand = route({
  method: "PATCH",
  path: "/brands/{id}",
  summary: "Changes a brand. A new name or identity also changes its manifest.",
  tag,
  access: writeScopes,
  params: BrandParams,
  body: Type.Object(
    {
      name: Type.Optional(Name),
      status: Type.Optional(Type.Union([Type.Literal("active"), Type.Literal("disabled")], { examples: ["active"] })),
      identity: Type.Optional(IdentityGiven),
    },
    closed,
  ),
  reply: {
    description: "The brand, and the version of its manifest if that has changed.",
    schema: Type.Object({ brand: Brand, manifest_version: Type.Optional(Type.Integer({ examples: [2] })) }),
  },
  fails: ["not_found", brandChanged, shopUnset, "invalid_request", "invalid_manifest", ...actorFails],
  async handle({ params: { id }, body, principal }, context) {
    const { store, env, settings } = context;
    const tenant = store.tenant(principal.tenant_id);
    const before = await ownBrand(store, principal.tenant_id, id);
    const { name = before.name, status = before.status } = body;
    const identity = mergedIdentity(before.identity, (body.identity ?? {}) as GivenIdentity);
    refuseCurrency(identity.currency);
    const isNew = body.name !== undefined || body.identity !== undefined;
    if (isNew && settings.manifestSource === "bundled") throw new SvcError(shopUnset);
    const updated_at = Math.max(env.now(), before.updated_at + 1);
    const row = { ...before, name, status, identity, updated_at };
    const manifest_version = isNew ? await provisioned(row, principal, context) : before.manifest_version;
    const made = { ...row, manifest_version };
    await tenant
      .write([updateBrandOp(tenant, made, before), provisionedOp(made, principal, context)])
      .catch((error: unknown) => {
        throw isConflict(error) ? new SvcError(brandChanged) : error;
      });
    return json({ brand: brandView(principal.tenant_id, made), ...(isNew && { manifest_version }) });
  },
});

const deleteBrand = route({
  method: "DELETE",
  path: "/brands/{id}",
  summary: "Deletes a brand with its hosts. Products and orders stay under its tenant.",
  tag,
  access: writeScopes,
  params: BrandParams,
  reply: { description: "It is deleted.", schema: Type.Object({ ok: Type.Boolean({ examples: [true] }) }) },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, principal: { tenant_id } }, { store }) {
    await ownBrand(store, tenant_id, id);
    await store.tenant(tenant_id).write(deleteBrandOps(store.tenant(tenant_id), id));
    return json({ ok: true });
  },
});

const RowError = Type.Object({
  index: Type.Integer({ description: "Number of the row, from 0.", examples: [3] }),
  id: Type.String({ examples: ["SKU-4"] }),
  error: Type.String({ examples: ["price_cents must be a whole number from 0 to 99,999,999"] }),
});

const importRoute = route({
  method: "POST",
  path: "/brands/{id}/catalog",
  summary: "Imports products of a brand, as JSON `{products: […]}` or as text/csv.",
  tag,
  access: writeScopes,
  params: BrandParams,
  query: Type.Object({
    mode: Type.Union([Type.Literal("upsert"), Type.Literal("replace")], {
      default: "upsert",
      description: "replace makes products inactive that the catalog does not list.",
    }),
  }),
  bodyBytesMax: importBytesMax,
  reply: {
    description: "Good rows are stored; the first 1,000 broken ones are listed.",
    schema: Type.Object({
      imported: Type.Integer({ examples: [2] }),
      deactivated: Type.Integer({ examples: [0] }),
      errors: Type.Array(RowError),
      error_count: Type.Integer({ examples: [1] }),
    }),
  },
  fails: [
    "not_found",
    invalidCatalog,
    catalogFull,
    "unsupported_media_type",
    "deadline_exceeded",
    "storage_unavailable",
  ],
  async handle({ params: { id }, query: { mode }, rawBody, exchange, principal }, context) {
    const { store, env, compute, textVectors, settings } = context;
    const brand = await ownBrand(store, principal.tenant_id, id);
    const type = (exchange.head.headers["content-type"] ?? "").toLowerCase().split(";", 1)[0]?.trim();
    if (type !== "text/csv" && type !== "application/json") throw new SvcError("unsupported_media_type");
    const { brand_tenant: tenantId, identity } = brand;
    const task = {
      ...({ format: type === "text/csv" ? "csv" : "json", bytes: new Uint8Array(rawBody) } as const),
      ...{ currency: identity.currency, tenantId },
    };
    const productsMax = settingOf(settings, productsMaxSetting);
    const made = await importCatalog(task, mode, { env, store, compute, textVectors, productsMax });
    const tenant = store.tenant(principal.tenant_id);
    const event = {
      ...{
        event_type: brandCatalogImport,
        status: made.error_count > 0 ? "partial" : "ok",
        manifest_id: brand.manifest,
      },
      ...{
        principal_subj: principal.sub,
        payload: { brand_id: id, imported: made.imported, errors: made.error_count },
      },
    };
    await tenant.write([auditOp(tenant, context, event)]);
    return json(made);
  },
});

const Product = Type.Object({
  id: Type.String({ description: "The SKU.", examples: ["SKU-1"] }),
  title: Type.String({ examples: ["Desk lamp"] }),
  description: Type.String({ examples: ["A lamp for the desk."] }),
  price_cents: Type.Integer({ examples: [4_900] }),
  currency: Type.String({ examples: ["usd"] }),
  image_url: Type.Union([Type.String(), Type.Null()], { examples: ["https://shop.example/lamp.jpg"] }),
  category: Type.String({ examples: ["Lamps"] }),
  inventory: Type.Integer({ description: "-1 for unlimited.", examples: [12] }),
  active: Type.Boolean({ examples: [true] }),
  attrs: Type.Object({}, { additionalProperties: true, examples: [{ colour: "black" }] }),
});

const catalogRoute = route({
  method: "GET",
  path: "/brands/{id}/catalog",
  summary: "Products of a brand, by SKU.",
  tag,
  access: "authenticated",
  params: BrandParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 50, description: "Products per page." }),
    offset: Type.Integer({
      minimum: 0,
      maximum: 10_000_000,
      default: 0,
      description: "Products to skip. A cursor is faster, and does not shift when products are added.",
    }),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: "`next_cursor` of the previous page." })),
  }),
  reply: {
    description: "One page; has_more tells if there is another.",
    schema: Type.Object({
      products: Type.Array(Product),
      has_more: Type.Boolean({ examples: [false] }),
      next_cursor: Type.Union([Type.String(), Type.Null()], { examples: [null] }),
      limit: Type.Integer({ examples: [50] }),
      offset: Type.Integer({ examples: [0] }),
    }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, query: { limit, offset, cursor }, principal: { tenant_id } }, { store }) {
    const { brand_tenant } = await ownBrand(store, tenant_id, id);
    const page = { limit, offset, after: cursor, activeOnly: false };
    const { rows, next } = await productPage(store.tenant(brand_tenant), page);
    return json({ products: rows.map(productOf), has_more: next !== null, next_cursor: next, limit, offset });
  },
});

const reindexRoute = route({
  method: "POST",
  path: "/brands/{id}/reindex",
  summary: "Builds the search index of a brand's products anew: their words at once, their vectors soon after.",
  tag,
  access: writeScopes,
  params: BrandParams,
  reply: {
    description: "The number of products.",
    schema: Type.Object({ ok: Type.Boolean({ examples: [true] }), reindexed: Type.Integer({ examples: [2] }) }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, principal: { tenant_id } }, { store, textVectors }) {
    const { brand_tenant } = await ownBrand(store, tenant_id, id);
    return json({ ok: true, reindexed: await reindexCatalog(store, brand_tenant, textVectors) });
  },
});

const addDomainRoute = route({
  method: "POST",
  path: "/brands/{id}/domains",
  summary: "Lets a brand answer at a host.",
  tag,
  access: writeScopes,
  params: BrandParams,
  body: Type.Object(
    { host: Type.String({ minLength: 1, maxLength: 255, description: "Its name.", examples: ["shop.lumen.example"] }) },
    closed,
  ),
  reply: {
    status: 201,
    description: "The host as requests name it.",
    schema: Type.Object({
      ok: Type.Boolean({ examples: [true] }),
      host: Type.String({ examples: ["shop.lumen.example"] }),
    }),
  },
  fails: ["not_found", domainTaken, invalidDomain, "storage_unavailable"],
  async handle({ params: { id }, body, principal: { tenant_id } }, { store, env, settings }) {
    await ownBrand(store, tenant_id, id);
    const host = readDomain(body.host, settings);
    const tenant = store.tenant(tenant_id);
    const hosts = await domainsOf(tenant, id);
    if (hosts.includes(host)) return json({ ok: true, host }, 201);
    if (hosts.length >= domainsMax)
      throw new SvcError(domainTaken, { detail: `a brand has at most ${domainsMax} hosts` });
    await tenant.write([addDomainOp(tenant, id, host, env.now())]).catch((error: unknown) => {
      throw isConflict(error) ? new SvcError(domainTaken, { detail: host }) : error;
    });
    return json({ ok: true, host }, 201);
  },
});

const listDomainsRoute = route({
  method: "GET",
  path: "/brands/{id}/domains",
  summary: "Hosts of a brand.",
  tag,
  access: "authenticated",
  params: BrandParams,
  reply: {
    description: "Sorted.",
    schema: Type.Object({ hosts: Type.Array(Type.String({ examples: ["shop.lumen.example"] })) }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id }, principal: { tenant_id } }, { store }) {
    await ownBrand(store, tenant_id, id);
    return json({ hosts: await domainsOf(store.tenant(tenant_id), id) });
  },
});

const removeDomainRoute = route({
  method: "DELETE",
  path: "/brands/{id}/domains/{host}",
  summary: "Removes a host of a brand.",
  tag,
  access: writeScopes,
  params: Type.Object({
    id: BrandId,
    host: Type.String({ description: "The host.", examples: ["shop.lumen.example"] }),
  }),
  reply: { description: "It is removed.", schema: Type.Object({ ok: Type.Boolean({ examples: [true] }) }) },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { id, host }, principal: { tenant_id } }, { store }) {
    await ownBrand(store, tenant_id, id);
    if (!(await removeDomain(store.tenant(tenant_id), id, host))) throw new SvcError("not_found");
    return json({ ok: true });
  },
});

/** Returns a brand of the caller's tenant. Refuses with not_found. */
async function ownBrand(store: HttpContext["store"], tenantId: string, id: string): Promise<BrandRow> {
  const row = await brandById(store.tenant(tenantId), id);
  if (row === undefined) throw new SvcError("not_found");
  return row;
}

function provisioned(row: BrandRow, principal: Principal, { bus, settings }: HttpContext): Promise<number> {
  return provisionManifest(bus, row, { base: settingOf(settings, baseManifestSetting), principal });
}

function provisionedOp(row: BrandRow, principal: Principal, context: HttpContext) {
  const { id: brand_id, brand_tenant, manifest_version, manifest: manifest_id } = row;
  const payload = { brand_id, brand_tenant, manifest_version };
  const event = { event_type: brandProvisioned, status: "ok", manifest_id, principal_subj: principal.sub, payload };
  return auditOp(context.store.tenant(principal.tenant_id), context, event);
}

function refuseCurrency(currency: string): void {
  if (isCurrency(currency)) return;
  const detail = [
    { loc: ["body", "identity", "currency"], msg: "must be a currency with two decimals", type: "value" },
  ];
  throw new SvcError("invalid_request", { detail });
}

function isConflict(error: unknown): boolean {
  return error instanceof SvcError && error.code === "conflict";
}

/** The routes of brands. */
export const brandRoutes = [
  createBrand,
  listBrands,
  getBrand,
  patchBrand,
  deleteBrand,
  importRoute,
  catalogRoute,
  reindexRoute,
  addDomainRoute,
  listDomainsRoute,
  removeDomainRoute,
];
