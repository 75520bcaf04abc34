import type { Settings } from "../governance/settings/settings.ts";
import { openManifestDirectory } from "../manifests/sources/files.ts";
import type { Store } from "../storage/store/store.ts";
import { manifestsExpectingAnonymous } from "../storage/tables/manifests.ts";

/** As many are named. */
const namedMax = 10;

/**
 * What a server warns of that admits nobody without credentials (decision 78): the operator's and the tenants' manifests that expect
 * such callers. Null when there are none. Those that come with svc expect them for whoever wants them, and are not meant.
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
        // What cannot be read is told to who asks for it.
        return false;
      }
    })
    .slice(0, namedMax + 1);
}
