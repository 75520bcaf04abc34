import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { HttpContext } from "../../../http/context.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { brandById } from "./brand-table.ts";

/** The parameter with which an operator reads the rows of its brand. */
export const BrandQuery = Type.Optional(
  Type.String({
    maxLength: 64,
    description: "A brand of the tenant, whose rows are read; absent for the tenant's own.",
    examples: ["lumen"],
  }),
);

/** Returns the store of the tenant of a brand of the caller, or of the caller itself. Refuses with not_found. */
export async function shopOf(
  tenantId: string,
  brand: string | undefined,
  { store }: Pick<HttpContext, "store">,
): Promise<TenantStore> {
  if (brand === undefined) return store.tenant(tenantId);
  const row = await brandById(store.tenant(tenantId), brand);
  if (row === undefined) throw new SvcError("not_found");
  return store.tenant(row.brand_tenant);
}
