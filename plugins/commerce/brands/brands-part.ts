import type { CommercePart } from "../core/part.ts";
import { migration } from "./0006_commerce_brands.ts";
import { brandCatalogImport, brandProvisioned, brandRoutes } from "./brand-routes.ts";
import { brandTable, domainTable } from "./brand-table.ts";

/** Brands, their hosts and the manifests of their agents. */
export const brandsPart: CommercePart = {
  tables: [brandTable, domainTable],
  migrations: [migration],
  routes: brandRoutes,
  scopes: { "brands:write": "Create and change brands, their catalogs and hosts." },
  auditTypes: [brandProvisioned, brandCatalogImport],
};
