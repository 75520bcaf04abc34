import { list } from "../../../storage/store/list.ts";
import { systemSql, tenantSql } from "../../../storage/store/statements.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertInto, integer, json, oneOf, type RowIn, selectOne, table, text } from "../../../storage/store/table.ts";
import type { Identity } from "./identity.ts";

// Brands and their hosts. The rows belong to the operator's tenant. A brand resolves publicly by `brand_tenant` or by a host, so
// both are unique over all tenants.

/** The brands. */
export const brandTable = table(
  "commerce_brands",
  {
    id: text,
    /** Time of the creation. */
    ts: integer,
    /** The tenant with the products, threads and orders of the brand. */
    brand_tenant: text,
    name: text,
    identity: json<Identity>(),
    status: oneOf("active", "disabled"),
    /** The manifest of the storefront's agent under `brand_tenant`. */
    manifest: text,
    manifest_version: integer,
    updated_at: integer,
  },
  ({ text: name }) => ({
    ...{ id: "row", ts: 5, brand_tenant: name, name, identity: {} as Identity, status: "active" as const },
    ...{ manifest: name, manifest_version: 5, updated_at: 5 },
  }),
);

/** The hosts of brands. */
export const domainTable = table(
  "commerce_brand_domains",
  { host: text, brand_id: text, created_at: integer },
  ({ text: host }) => ({ host, brand_id: "row", created_at: 5 }),
);

/** A stored brand. */
export type BrandRow = RowIn<typeof brandTable>;

/** A brand with the tenant of its operator. */
export interface FoundBrand extends BrandRow {
  readonly operator_tenant: string;
}

const { columns } = brandTable;
const insertBrand = insertInto(brandTable);
const insertDomain = insertInto(domainTable);
const updateBrand = tenantSql(
  "commerce_brand_update",
  `UPDATE commerce_brands SET name = ?, identity = ?, status = ?, manifest_version = ?, updated_at = ?
   WHERE tenant_id = :tenant AND id = ? AND updated_at = ?`,
);
const deleteBrand = tenantSql(
  "commerce_brand_delete",
  "DELETE FROM commerce_brands WHERE tenant_id = :tenant AND id = ?",
);
const deleteDomains = tenantSql(
  "commerce_brand_domains_delete",
  "DELETE FROM commerce_brand_domains WHERE tenant_id = :tenant AND brand_id = ?",
);
const deleteDomain = tenantSql(
  "commerce_brand_domain_delete",
  "DELETE FROM commerce_brand_domains WHERE tenant_id = :tenant AND brand_id = ? AND host = ? RETURNING host",
);
const selectDomains = tenantSql(
  "commerce_brand_domains_of",
  "SELECT host FROM commerce_brand_domains WHERE tenant_id = :tenant AND brand_id = ? ORDER BY host LIMIT ?",
);
const selectByTenant = systemSql(
  "commerce_brand_by_storefront",
  `SELECT tenant_id, ${columns} FROM commerce_brands WHERE brand_tenant = ?`,
);
const selectByHost = systemSql(
  "commerce_brand_by_host",
  `SELECT b.tenant_id, ${columns
    .split(", ")
    .map((name) => `b.${name}`)
    .join(", ")}
   FROM commerce_brand_domains d JOIN commerce_brands b ON b.tenant_id = d.tenant_id AND b.id = d.brand_id WHERE d.host = ?`,
);

const selectOwn = tenantSql(
  "commerce_brand_of_tenant",
  `SELECT ${columns} FROM commerce_brands WHERE brand_tenant = :tenant`,
);

/** Returns the brand whose products and orders a tenant has; undefined without one. */
export async function brandOfTenant(store: TenantStore): Promise<BrandRow | undefined> {
  const [row] = await store.read(selectOwn);
  return row && brandTable.decode(row);
}

/** Max hosts of a brand. */
export const domainsMax = 50;

/** Returns a page of an operator's brands, newest first. */
export const brandPage = list(brandTable, []).page;
/** Returns a brand of an operator. */
export const brandById = selectOne(brandTable, ["id"]);

/** The statements that find a brand over all tenants. */
export const publicLookups = { byTenant: selectByTenant, byHost: selectByHost };

/** Returns the operation that stores a new brand. Its batch refuses with conflict if the id or the brand's tenant is taken. */
export const insertBrandOp: (store: TenantStore, row: BrandRow) => WriteOp = insertBrand;

/** Returns the operation that stores a changed brand, unless it has changed since it was read. */
export function updateBrandOp(store: TenantStore, row: BrandRow, before: Pick<BrandRow, "updated_at">): WriteOp {
  const { id, name, identity, status, manifest_version, updated_at } = row;
  return store.op(
    updateBrand,
    [name, JSON.stringify(identity), status, manifest_version, updated_at, id, before.updated_at],
    1,
  );
}

/** Returns the operations that delete a brand with its hosts. */
export function deleteBrandOps(store: TenantStore, id: string): WriteOp[] {
  return [store.op(deleteDomains, [id]), store.op(deleteBrand, [id])];
}

/** Returns the operation that gives a brand a host. Its batch refuses with conflict if a brand has the host. */
export function addDomainOp(store: TenantStore, brandId: string, host: string, now: number): WriteOp {
  return insertDomain(store, { host, brand_id: brandId, created_at: now });
}

/** Removes a host of a brand; returns false if the brand does not have it. */
export async function removeDomain(store: TenantStore, brandId: string, host: string): Promise<boolean> {
  const [rows = []] = await store.write([store.op(deleteDomain, [brandId, host])]);
  return rows.length > 0;
}

/** Returns the hosts of a brand, sorted. */
export async function domainsOf(store: TenantStore, brandId: string): Promise<string[]> {
  return (await store.read(selectDomains, brandId, domainsMax)).map(({ host }) => host as string);
}
