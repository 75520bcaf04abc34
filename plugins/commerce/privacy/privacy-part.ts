import { settingOf } from "../../../governance/settings/settings.ts";
import type { CommercePart } from "../core/part.ts";
import { retentionDaysSetting } from "../core/shop-settings.ts";
import { migration } from "./0017_commerce_privacy.ts";
import { eraseCustomer } from "./erase-route.ts";
import { eraseBefore } from "./erasure.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** The erasure of shoppers, by request and by age. */
export const privacyPart: CommercePart = {
  migrations: [migration],
  routes: [eraseCustomer],
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
