import type { CommercePart } from "../core/part.ts";
import { commerceOrder, consentRecorded } from "./checkout-audit.ts";
import { checkoutRoutes } from "./checkout-routes.ts";
import { checkoutTools } from "./checkout-tools.ts";

/** Checkout and payments, and the routes of orders, consents and attribution. */
export const checkoutPart: CommercePart = {
  routes: checkoutRoutes,
  scopes: {
    "orders:read": "Read orders.",
    "consent:read": "Read consents of shoppers, and where orders came from.",
  },
  auditTypes: [commerceOrder, consentRecorded],
  tools: checkoutTools,
};
