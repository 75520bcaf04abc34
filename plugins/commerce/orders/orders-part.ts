import type { CommercePart } from "../core/part.ts";
import { migration as orders } from "./0008_commerce_orders.ts";
import { migration as shoppers } from "./0009_commerce_shoppers.ts";
import { consentTable } from "./consents.ts";
import { attributionTable, orderTable, paymentEventTable } from "./orders.ts";
import { sessionTable } from "./sessions.ts";

/** Orders with their attribution, the shoppers of threads, and consents. */
export const ordersPart: CommercePart = {
  tables: [orderTable, paymentEventTable, attributionTable, sessionTable, consentTable],
  migrations: [orders, shoppers],
};
