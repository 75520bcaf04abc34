import { settingOf } from "../../../governance/settings/settings.ts";
import { invalidImage } from "../catalog/picture.ts";
import type { CommercePart } from "../core/part.ts";
import { deleteIdleSessions } from "../orders/sessions.ts";
import { shopKeyMissing } from "./session-keys.ts";
import { shopRoutes } from "./shop-routes.ts";
import { shopBudget, shopRateLimit, shopSessionKeys, shopTotalRateLimit } from "./shop-settings.ts";
import { invocationFailed, storefrontNotProvisioned } from "./shop-turn.ts";
import { shopperPrefix } from "./shopper.ts";
import { missingImage, visualSearchUnset } from "./visual-search.ts";
import { widgetRoutes } from "./widget-routes.ts";

const dayMs = 24 * 60 * 60 * 1000;
const idleDays = 90;

/** The storefronts of brands, and the widget for their pages. */
export const storefrontPart: CommercePart = {
  settings: [shopSessionKeys, shopRateLimit, shopTotalRateLimit, shopBudget],
  callerBudgets(settings) {
    const tokens = settingOf(settings, shopBudget);
    return tokens === 0 ? [] : [{ id: "shoppers", sub: shopperPrefix, period: "day", tokens }];
  },
  routes: [...shopRoutes, ...widgetRoutes],
  errorCodes: [
    missingImage,
    invalidImage,
    visualSearchUnset,
    storefrontNotProvisioned,
    invocationFailed,
    shopKeyMissing,
  ],
  tasks: [
    {
      name: "commerce_sessions_sweep",
      async run({ store, env }) {
        await deleteIdleSessions(store, env.now() - idleDays * dayMs);
        return dayMs;
      },
    },
  ],
};
