import type { BrandRow } from "../brands/brand-table.ts";
import { isInStock, type ProductRow } from "../catalog/products.ts";
import { decimalText } from "../core/money.ts";

// Documents of https://schema.org as JSON-LD, which search engines read.

const context = "https://schema.org";

/** Returns a Product with its Offer. */
export function productDocument(brand: Pick<BrandRow, "name">, product: ProductRow, url: string): object {
  const { id, title, description, image_url, category, price_cents, currency } = product;
  return {
    "@type": "Product",
    sku: id,
    name: title,
    ...(description !== "" && { description }),
    ...(image_url !== null && { image: image_url }),
    brand: { "@type": "Brand", name: brand.name },
    ...(category !== "" && { category }),
    offers: {
      "@type": "Offer",
      price: decimalText(price_cents),
      priceCurrency: currency.toUpperCase(),
      availability: `${context}/${isInStock(product) ? "InStock" : "OutOfStock"}`,
      url,
    },
  };
}

/** Returns a document of its own. */
export function documentOf(node: object): string {
  return JSON.stringify({ "@context": context, ...node });
}

/** Returns a page of the catalog as an ItemList; positions count from 1 on each page. */
export function listDocument(brand: Pick<BrandRow, "name">, products: readonly object[]): string {
  const itemListElement = products.map((item, at) => ({ "@type": "ListItem", position: at + 1, item }));
  return documentOf({ "@type": "ItemList", name: brand.name, itemListElement });
}
