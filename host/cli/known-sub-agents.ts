import type { Described, FindAgent } from "../../actors/library/sub-agents.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { compile } from "../../manifests/compile/compile.ts";
import { isManifestName } from "../../manifests/fields/names.ts";
import { parseManifest } from "../../manifests/parse/parse.ts";
import type { Registries } from "../../manifests/registries.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";

/** Where sub-agents are looked up. */
export interface Place {
  readonly tenantId: string;
  readonly settings: Settings;
  readonly registries: Registries;
  readonly objects: ObjectSource;
  readonly env: Env;
}

/** Looks up sub-agents and collects the names that were not found. */
interface KnownSubAgents {
  readonly find: FindAgent<Described>;
  readonly unseen: ReadonlySet<string>;
}

/**
 * Looks up sub-agents among the objects and files of the deployment. A name that is not found counts as a valid agent without
 * sub-agents, because it may be stored by a tenant, and only the server can read that.
 */
export function knownSubAgents({ tenantId, settings, registries, objects, env }: Place): KnownSubAgents {
  const isBundledOnly = settings.manifestSource === "bundled";
  const resolver = createResolver({
    env,
    store: null,
    objects: isBundledOnly ? null : objects,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
  });
  const unseen = new Set<string>();
  const find = async (name: string): Promise<Described> => {
    try {
      const { manifest } = await resolver.resolve(tenantId, name, null);
      const texts = await readTexts(objects, neededTexts(manifest, tenantId));
      return compile(manifest, registries, { tenantId, version: null, texts });
    } catch (error) {
      const isUnknown = error instanceof SvcError && error.code === "unknown_manifest";
      if (!isUnknown || isBundledOnly || !isManifestName(name)) throw error;
      unseen.add(name);
      return { manifest: parseManifest({ metadata: { name } }) };
    }
  };
  return { find, unseen };
}
