import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import type { HttpContext } from "../../../http/context.ts";
import type { RouteRequest } from "../../../http/route.ts";
import { brandByHost, brandByStorefront, hostOf } from "../brands/brand-lookup.ts";
import type { FoundBrand } from "../brands/brand-table.ts";
import { storefrontNotFound, storefrontUnavailable } from "../core/shop-errors.ts";

/** The head of a request. */
export type RequestHead = RouteRequest<unknown, unknown, unknown>["exchange"]["head"];

/** The parameter of routes that name a storefront in their path. */
export const storefrontParam = Type.String({
  maxLength: 64,
  description: "The storefront, which is the brand's tenant.",
  examples: ["acme-shoes"],
});

/** Returns the brand that a public request is for: by its storefront, or by its host where the path names none. Refuses with storefront_not_found. */
export async function brandOfRequest(
  storefront: string | undefined,
  head: RequestHead,
  { store }: Pick<HttpContext, "store">,
): Promise<FoundBrand> {
  const found =
    storefront === undefined
      ? await brandByHost(store, hostOf(head.headers.host))
      : await brandByStorefront(store, storefront);
  if (found === undefined) throw new SvcError(storefrontNotFound);
  return found;
}

/** Returns the brand of a request, if its storefront is open. Refuses with storefront_not_found and storefront_unavailable. */
export async function openBrandOfRequest(
  storefront: string | undefined,
  head: RequestHead,
  context: Pick<HttpContext, "store">,
): Promise<FoundBrand> {
  const brand = await brandOfRequest(storefront, head, context);
  if (brand.status !== "active") throw new SvcError(storefrontUnavailable);
  return brand;
}
