import { settingOf } from "../../../governance/settings/settings.ts";
import type { CommercePart } from "../core/part.ts";
import { retentionDaysSetting } from "../core/shop-settings.ts";
import { migration as orders } from "./0008_commerce_orders.ts";
import { migration as shoppers } from "./0009_commerce_shoppers.ts";
import { consentTable } from "./consents.ts";
import { eraseBefore } from "./erasure.ts";
import { attributionTable, orderTable, paymentEventTable } from "./orders.ts";
import { sessionTable } from "./sessions.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Orders with their attribution, the shoppers of threads, and consents. */
export const ordersPart: CommercePart = {
  tables: [orderTable, paymentEventTable, attributionTable, sessionTable, consentTable],
  migrations: [orders, shoppers],
  tasks: [
    {
      name: "commerce_retention",
      async run({ settings, store, env }) {
        const days = settingOf(settings, retentionDaysSetting);
        if (days > 0) await eraseBefore(store.system, env.now() - days * dayMs);
        return hourMs;
      },
    },
  ],
};
