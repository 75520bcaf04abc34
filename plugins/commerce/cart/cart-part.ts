import type { CommercePart } from "../core/part.ts";
import { cartTools } from "./cart-tools.ts";

/** Carts, which are records in the logs of their threads. */
export const cartPart: CommercePart = { tools: cartTools };
