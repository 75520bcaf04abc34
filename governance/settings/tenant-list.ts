import { readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** Tenants that may use a part of the deployment; `*` for every tenant. */
export type TenantList = readonly string[] | "*";

/** True if the list names the tenant. */
export function includesTenant(tenants: TenantList, tenantId: string): boolean {
  return tenants === "*" || tenants.includes(tenantId);
}

/** Reads `tenants` of an entry: a list of ids, or `*`. Throws an Error that begins with `where`. */
export function readTenants(value: unknown, where: string): TenantList {
  if (value === "*") return "*";
  const tenants = readStrings(value, where);
  if (tenants.length === 0) throw new Error(`${where} must name a tenant, or be "*"`);
  return tenants.map((tenant) => {
    try {
      return readTenantId(tenant);
    } catch (error) {
      throw new Error(`${where}: ${(error as Error).message}`);
    }
  });
}
