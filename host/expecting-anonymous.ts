import type { Settings } from "../governance/settings/settings.ts";
import { openManifestDirectory } from "../manifests/sources/files.ts";
import type { Store } from "../storage/store/store.ts";
import { manifestsExpectingAnonymous } from "../storage/tables/manifests.ts";

/** Max manifests named in the warning. */
const namedMax = 10;

/**
 * Returns a warning if anonymous access is off (decision 78: SVC_ANONYMOUS_TENANT enables it) but manifests of the operator or
 * tenants allow it; otherwise null. Bundled manifests are not counted.
 */
export async function warningOfAnonymous(settings: Settings, store: Store, now: () => number): Promise<string | null> {
  const { anonymousTenant, authMode, manifestDir, manifestSource } = settings;
  if (anonymousTenant !== "" || authMode === "none") return null;
  const names = manifestDir === "" ? [] : expectingIn(manifestDir, now);
  if (manifestSource === "store" && names.length <= namedMax) {
    const stored = await manifestsExpectingAnonymous(store.system, namedMax + 1 - names.length);
    names.push(...stored.map(({ tenant_id, name }) => `${name} of ${tenant_id}`));
  }
  if (names.length === 0) return null;
  const shown = names.slice(0, namedMax).join(", ");
  const more = names.length > namedMax ? " and others" : "";
  return `SVC_ANONYMOUS_TENANT is not set, so callers without credentials cannot use the manifests that set allow_anonymous: ${shown}${more}.`;
}

function expectingIn(directory: string, now: () => number): string[] {
  const files = openManifestDirectory(directory, now);
  return files
    .names()
    .filter((name) => {
      try {
        return files.get(name)?.spec.auth.inbound.allow_anonymous === true;
      } catch {
        // An unreadable file is reported to its callers.
        return false;
      }
    })
    .slice(0, namedMax + 1);
}
