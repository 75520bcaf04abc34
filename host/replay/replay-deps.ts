import { ManifestLibrary } from "../../actors/library/manifest-library.ts";
import { createModels } from "../../actors/models/create-models.ts";
import { patterns as builtInPatterns } from "../../actors/run/patterns/patterns.ts";
import type { PatternDeps } from "../../actors/run/steps/pattern.ts";
import { delegationSource } from "../../actors/tools/delegation/task.ts";
import { clientToolSource } from "../../actors/tools/questions/client-tool.ts";
import { queueSource } from "../../actors/tools/questions/queue-tool.ts";
import { builtInSource } from "../../actors/tools/registry/built-in.ts";
import { registriesOf } from "../../actors/tools/registry/registries.ts";
import { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { openKeptObjects } from "../../governance/objects/open-objects.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { createResolver, type ManifestResolver } from "../../manifests/resolve/resolve.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import type { ObjectSource } from "../../manifests/sources/texts.ts";
import { FileStore } from "../../storage/files/file-store.ts";
import type { Store } from "../../storage/store/store.ts";
import { createActorDeps } from "../actor-deps.ts";
import type { Deployment } from "../deployment.ts";
import { pluginExtensions, pluginManifests, pluginOffers, pluginPatterns, pluginProviders } from "../plugin-seams.ts";

/**
 * Returns the dependencies of a replay, with no access to the outside: no controls, tools or queue, and an audit that is never
 * written. Of plugins only the patterns run. `own` replaces the manifest of its name.
 */
export function replayDeps(
  { settings: given, plugins }: Deployment,
  env: Env,
  store: Store,
  objects: ObjectSource,
  own: Manifest | null,
): PatternDeps {
  const settings: Settings = { ...given, logLevel: "silent", redisUrl: "", objectStore: "memory", budgets: [] };
  const node = nodeId("replay", 0);
  const bus = new Bus({ env, node, incarnation: 0, actorNodes: [node], deliver: () => {} });
  const bare = plugins.map(({ from, plugin: { name, description, patterns = {}, modelProviders = [] } }) => ({
    from,
    plugin: { name, description, patterns, modelProviders },
  }));
  const config = { node: 0, actorNodes: [node], bootId: "replay", incarnation: 0, version: "" };
  const unused = { engine: "sqlite", path: "" } as const;
  const made = createActorDeps({ ...config, settings, store: unused }, env, store, bus, bare);
  const models = createModels(settings, env, made.mask, pluginProviders(plugins));
  const patterns = new Map([...builtInPatterns, ...pluginPatterns(plugins)]);
  const offers = [clientToolSource, queueSource, builtInSource, delegationSource, ...pluginOffers(plugins)];
  const registries = registriesOf(given, {
    models,
    secrets: made.secrets,
    toolSources: offers,
    patterns,
    extensions: pluginExtensions(plugins),
  });
  const fromStore = settings.manifestSource === "store";
  const resolver = createResolver({
    env,
    store: fromStore ? store : null,
    objects: fromStore ? objects : null,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
    ofPlugins: pluginManifests(plugins),
  });
  const stable = { version: null, variant: "stable", hasCanary: false, source: "directory" } as const;
  const found: ManifestResolver = {
    ...resolver,
    resolve: async (tenantId, name, suffix) =>
      name === own?.metadata.name ? { manifest: own, ...stable } : resolver.resolve(tenantId, name, suffix),
  };
  const manifests = new ManifestLibrary(found, registries, objects, made.metrics, () => env.monotonic());
  return {
    ...made,
    models,
    manifests,
    files: filesOf(given, env, made.secrets),
    toolSources: [],
    controls: [],
    redis: null,
  };
}

/** Returns the files of a deployment. */
function filesOf(settings: Settings, env: Env, secrets: Secrets): FileStore {
  return new FileStore(openKeptObjects(settings, env, secrets), env, 0);
}
