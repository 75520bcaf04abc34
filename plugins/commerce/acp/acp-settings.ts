import { text, unprefixed } from "../../../governance/settings/setting.ts";

/** The bearer of the protocol's callers. */
export const acpKeySetting = unprefixed(
  text("ACP_API_KEY", "", "Bearer of callers of the Agentic Commerce Protocol; without it the protocol is off.", {
    secret: true,
  }),
);
/** The merchant. */
export const acpTenantSetting = unprefixed(
  text("ACP_MERCHANT_TENANT", "default", "Tenant whose catalog the Agentic Commerce Protocol sells."),
);
