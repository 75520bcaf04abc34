import type { Settings } from "../../../governance/settings/settings.ts";
import { publicUrlOf } from "../../../http/public-url.ts";
import type { BrandRow } from "../brands/brand-table.ts";
import type { ProductRow } from "../catalog/products.ts";
import type { RequestHead } from "../storefront/storefront-brand.ts";

/** Returns the URL of a product: its own `attrs.url`, a page of the brand's shop, or the document of this server. */
export function productUrl(
  { identity, brand_tenant }: Pick<BrandRow, "identity" | "brand_tenant">,
  { id, attrs }: Pick<ProductRow, "id" | "attrs">,
  head: RequestHead,
  settings: Settings,
): string {
  const { url } = attrs;
  if (typeof url === "string" && URL.parse(url)?.protocol === "https:") return url;
  const sku = encodeURIComponent(id);
  const shop = identity.structured_data.base_url.replace(/\/+$/, "");
  if (shop !== "") return `${shop}/products/${sku}`;
  return `${publicUrlOf(head, settings)}/structured/${encodeURIComponent(brand_tenant)}/products/${sku}`;
}
