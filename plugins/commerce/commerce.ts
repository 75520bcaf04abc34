import { definePlugin } from "../plugin.ts";
import { acpPart } from "./acp/acp-part.ts";
import { b2bPart } from "./b2b/b2b-part.ts";
import { brandsPart } from "./brands/brands-part.ts";
import { cartPart } from "./cart/cart-part.ts";
import { catalogPart } from "./catalog/catalog-part.ts";
import { checkoutPart } from "./checkout/checkout-part.ts";
import { consolePart } from "./console/console-part.ts";
import { joined } from "./core/part.ts";
import { shopErrors } from "./core/shop-errors.ts";
import { shopSettings } from "./core/shop-settings.ts";
import { entitiesPart } from "./entities/entities-part.ts";
import { geoPart } from "./geo/geo-part.ts";
import { ordersPart } from "./orders/orders-part.ts";
import { privacyPart } from "./privacy/privacy-part.ts";
import { storefrontPart } from "./storefront/storefront-part.ts";
import { structuredPart } from "./structured/structured-part.ts";

/**
 * The shop: catalog, carts, checkout, storefronts. Loaded unless SVC_COMMERCE_ENABLED is false.
 *
 * Each folder is one part of it (`<folder>/<folder>-part.ts` exports a `CommercePart`). To add a folder, write its part and add it
 * to the list below. The rules of the folders:
 *
 * - A part names routes, tools, tables, migrations, settings, scopes, audit types, error codes, tasks and metrics as a plugin does.
 *   The tag of every route is `commerce`. Names of tables and statements begin with `commerce_`, names of metrics with
 *   `svc_commerce_`.
 * - Migrations are files `NNNN_commerce_<what>.ts` beside their tables, with revisions from 0006 to 0018: brands has 0006, catalog
 *   0007, orders 0008 and 0009, b2b 0010 to 0012, entities 0013, geo 0014 and 0015, acp 0016, privacy 0017; 0018 is free.
 * - `core/money.ts` has all arithmetic on amounts; `test/tidy.test.ts` refuses it elsewhere in the plugin.
 * - Declarations load with the server, so they import no library. A handler loads its library or heavy module at its first use, by
 *   `await import(…)`.
 * - A brand is found by its storefront or by a host with `brands/brand-lookup.ts`. Brand rows belong to the operator's tenant;
 *   products, carts, orders and consents to `brand_tenant`. Tenants come from the principal or from a found brand only.
 * - `catalog/products.ts` reads products, `catalog/catalog-search.ts` searches them, `cart/carts.ts` reads and changes a cart,
 *   `orders/orders.ts` has orders with payment and attribution, `orders/sessions.ts` the shoppers of threads,
 *   `orders/consents.ts` the consents. Imports between folders make no cycle: core, catalog, brands, orders, pricing, cart, checkout,
 *   sources, b2b, entities, geo, storefront, structured, acp, privacy, console.
 */
export const plugin = definePlugin({
  name: "commerce",
  description: "A shop: brands with their catalogs, carts, checkout and orders.",
  manifests: new URL("./manifests/", import.meta.url),
  ...joined([
    { settings: shopSettings, errorCodes: shopErrors },
    brandsPart,
    catalogPart,
    ordersPart,
    cartPart,
    checkoutPart,
    b2bPart,
    entitiesPart,
    geoPart,
    storefrontPart,
    structuredPart,
    acpPart,
    privacyPart,
    consolePart,
  ]),
});
