import { withMembers } from "../../actors/library/members.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { compile } from "../../manifests/compile/compile.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { Registries } from "../../manifests/registries.ts";
import { createResolver } from "../../manifests/resolve/resolve.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";

/** Where the manifests of other names are looked for. */
export interface Place {
  readonly tenantId: string;
  readonly settings: Settings;
  readonly registries: Registries;
  readonly objects: ObjectSource;
  readonly env: Env;
}

/**
 * Holds what an agent is made of against the objects and files of the deployment, all the way down, and answers the names that are not
 * among them: a tenant may have stored those, which the server alone can see. Refuses with invalid_manifest.
 */
export async function checkMembers(agent: CompiledAgent, place: Place): Promise<readonly string[]> {
  const { tenantId, settings, registries, objects, env } = place;
  const isBundledOnly = settings.manifestSource === "bundled";
  const resolver = createResolver({
    env,
    store: null,
    objects: isBundledOnly ? null : objects,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
  });
  const unseen = new Set<string>();
  await withMembers(agent, async (name) => {
    try {
      const { manifest } = await resolver.resolve(tenantId, name, null);
      const texts = await readTexts(objects, neededTexts(manifest, tenantId));
      return compile(manifest, registries, { tenantId, version: null, texts });
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "unknown_manifest" || isBundledOnly) throw error;
      unseen.add(name);
      return alone(agent);
    }
  });
  return [...unseen];
}

/** Something that is made of nothing else. */
function alone(agent: CompiledAgent): CompiledAgent {
  const { manifest } = agent;
  return { ...agent, manifest: { ...manifest, spec: { ...manifest.spec, sub_agents: [] } } };
}
