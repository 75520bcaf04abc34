import type { CommercePart } from "../core/part.ts";
import { cartTools } from "./cart-tools.ts";
import { catalogTools } from "./catalog-tools.ts";

/** The tools that read the catalog with its prices of now, and carts, which are records in the logs of their threads. */
export const cartPart: CommercePart = { tools: [...catalogTools, ...cartTools] };
