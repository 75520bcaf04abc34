import { int, setting } from "../../../governance/settings/setting.ts";

const keyCharsMin = 32;

/** The keys that sign the threads of shoppers. */
export const shopSessionKeys = setting<readonly string[]>(
  "SHOP_SESSION_KEY",
  "secret",
  [],
  "Keys of at least 32 characters that sign the threads of shoppers, separated by commas: the first signs, all verify. Unset, a key is made in the data directory; a cluster needs one.",
  (value) => {
    const keys = value.split(",").map((key) => key.trim());
    if (keys.some((key) => key.length < keyCharsMin))
      throw new Error(`needs at least ${keyCharsMin} characters for each key`);
    return keys;
  },
  { secret: true },
);

/** Requests of one address to one storefront. */
export const shopRateLimit = int(
  "SHOP_RATE_LIMIT",
  60,
  [0, 1e9],
  "Maximum requests of one address to one storefront in SVC_RATE_LIMIT_WINDOW_SECONDS; 0 is off.",
);

/** Tokens of all shoppers of a brand. */
export const shopBudget = int(
  "SHOP_DAILY_TOKENS",
  20_000_000,
  [0, Number.MAX_SAFE_INTEGER],
  "Tokens that the shoppers of a brand may spend in a day, if SVC_BUDGETS has no budget for them; 0 is off.",
);

/** Requests of all addresses to one storefront. */
export const shopTotalRateLimit = int(
  "SHOP_TOTAL_RATE_LIMIT",
  3_000,
  [0, 1e9],
  "Maximum requests of all addresses to one storefront in SVC_RATE_LIMIT_WINDOW_SECONDS; 0 is off.",
);
