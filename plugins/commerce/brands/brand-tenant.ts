import { SvcError } from "../../../bus/errors.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { systemSql } from "../../../storage/store/statements.ts";
import type { Store } from "../../../storage/store/store.ts";
import { brandExists } from "../core/shop-errors.ts";

const usesOfTenant = systemSql(
  "commerce_tenant_in_use",
  `SELECT EXISTS (SELECT 1 FROM threads WHERE tenant_id = ?) AS has_threads,
    EXISTS (SELECT 1 FROM commerce_products WHERE tenant_id = ?) AS has_products,
    EXISTS (SELECT 1 FROM manifest_pointers WHERE tenant_id = ?) AS has_manifests,
    EXISTS (SELECT 1 FROM documents WHERE tenant_id = ?) AS has_documents,
    EXISTS (SELECT 1 FROM jobs WHERE tenant_id = ?) AS has_jobs`,
);

type TenantSettings = Pick<
  Settings,
  | "authMode"
  | "authApiKeys"
  | "allowedTenants"
  | "anonymousTenant"
  | "triggers"
  | "githubOrgs"
  | "githubInvites"
  | "githubActionsGrants"
  | "googleAccounts"
  | "budgets"
  | "secretTenants"
  | "consumerSharedSecret"
  | "consumerTenant"
>;

/**
 * Refuses with brand_exists a tenant that is not the caller's own and that is in use, configured, or open to a verifier of tokens:
 * its members could read what the brand stores.
 */
export async function refuseForeignTenant(
  brandTenant: string,
  principal: Principal,
  { store, settings }: { readonly store: Store; readonly settings: TenantSettings },
): Promise<void> {
  if (brandTenant === principal.tenant_id) return;
  const { authMode, allowedTenants } = settings;
  const isMintable = authMode === "jwt" && (allowedTenants.length === 0 || allowedTenants.includes(brandTenant));
  const [row] = await store.system.readLong(usesOfTenant, ...Array.from({ length: 5 }, () => brandTenant));
  const isUsed = Object.values(row ?? {}).includes(1);
  if (isMintable || isUsed || configuredTenants(settings).has(brandTenant))
    throw new SvcError(brandExists, { detail: brandTenant });
}

/** Returns the tenants that the settings name: those of credentials, sign-ins, triggers, consumers, budgets and secrets. */
function configuredTenants(settings: TenantSettings): ReadonlySet<string> {
  const { githubOrgs, githubInvites, githubActionsGrants, googleAccounts, consumerSharedSecret } = settings;
  const grants = [...githubOrgs, ...githubInvites, ...githubActionsGrants, ...googleAccounts];
  const owned = [...settings.authApiKeys.values(), ...settings.triggers, ...settings.budgets];
  return new Set([
    "default",
    settings.anonymousTenant,
    ...owned.map(({ tenant_id }) => tenant_id),
    ...grants.map(({ tenant }) => tenant),
    ...Object.values(settings.secretTenants).flatMap((tenants) => (tenants === "*" ? [] : tenants)),
    ...(typeof consumerSharedSecret === "string" ? [settings.consumerTenant] : Object.keys(consumerSharedSecret)),
  ]);
}
