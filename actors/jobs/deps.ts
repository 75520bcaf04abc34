import type { Logger } from "pino";
import type { FreshDeps } from "../../governance/auth/fresh-access.ts";
import type { SignInGrants } from "../../governance/auth/sign-in-scopes.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";

/** Dependencies of the jobs actor. */
export interface JobsDeps {
  readonly store: Store;
  readonly manifests: Pick<ManifestLibrary, "resolve">;
  readonly metrics: Pick<Metrics, "count">;
  readonly mask: SecretMask;
  readonly settings: Pick<Settings, "tenantStoredBytes" | "authMode" | "authApiKeys" | "allowedTenants" | "triggers"> &
    SignInGrants;
  /** The stored keys and sign-ins. */
  readonly access: FreshDeps["access"];
  readAccess(): Promise<void>;
  readonly log: Logger;
}
