import type { Store } from "../../../storage/store/store.ts";
import { brandTable, type FoundBrand, publicLookups } from "./brand-table.ts";

// Public requests find their brand here, over all tenants. The tenant of the operator is never sent.

/** Returns the brand of a storefront, which is its `brand_tenant`; undefined without one. */
export async function brandByStorefront(store: Store, storefront: string): Promise<FoundBrand | undefined> {
  const [row] = await store.system.read(publicLookups.byTenant, storefront);
  return row && { ...brandTable.decode(row), operator_tenant: row.tenant_id as string };
}

/** Returns the brand of a Host header, exactly as it is stored: lower case, punycode, without port. */
export async function brandByHost(store: Store, host: string): Promise<FoundBrand | undefined> {
  const [row] = await store.system.read(publicLookups.byHost, host);
  return row && { ...brandTable.decode(row), operator_tenant: row.tenant_id as string };
}

/** Returns the host of a Host header without its port, in lower case. */
export function hostOf(header: string | undefined): string {
  return (header ?? "").toLowerCase().replace(/:\d+$/, "");
}
