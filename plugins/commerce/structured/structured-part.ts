import type { CommercePart } from "../core/part.ts";
import { structuredRoutes } from "./structured-routes.ts";

/** The documents that crawlers read. */
export const structuredPart: CommercePart = { routes: structuredRoutes };
