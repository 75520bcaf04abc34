import type { Logger } from "pino";
import type { FreshDeps } from "../../governance/auth/fresh-access.ts";
import type { SignInGrants } from "../../governance/auth/sign-in-scopes.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import type { StepKind } from "./step-kind.ts";

/** Dependencies of the actors of workflows. */
export interface WorkflowDeps {
  readonly store: Store;
  /** The kinds of steps by their names, those of plugins included. */
  readonly stepKinds: ReadonlyMap<string, StepKind>;
  readonly metrics: Pick<Metrics, "count">;
  readonly mask: SecretMask;
  readonly settings: Pick<Settings, "authMode" | "authApiKeys" | "allowedTenants" | "triggers" | "tenantStoredBytes"> &
    SignInGrants;
  /** The stored keys and sign-ins. */
  readonly access: FreshDeps["access"];
  readAccess(): Promise<void>;
  readonly log: Logger;
}
