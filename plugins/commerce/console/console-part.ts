import type { CommercePart } from "../core/part.ts";

// Drawings on a grid of 24.
const bag = "M6 8h12l1 12H5zM9 8V6a3 3 0 0 1 6 0v2";
const box = "M4 8l8-4 8 4v9l-8 4-8-4zM4 8l8 4 8-4M12 12v9";
const sheet = "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5";

/** The screens of the console. */
export const consolePart: CommercePart = {
  console: {
    folder: new URL("./", import.meta.url),
    screens: [
      { name: "orders", title: "Orders", icon: bag, route: "GET /commerce/orders", module: "orders.js" },
      { name: "catalog", title: "Catalog", icon: box, route: "GET /brands/{id}/catalog", module: "catalog.js" },
      { name: "quotes", title: "Quotes", icon: sheet, route: "GET /b2b/quotes", module: "quotes.js" },
    ],
  },
};
