import { ManifestLibrary } from "../actors/library/manifest-library.ts";
import { type LimiterDeps, limiterActor } from "../actors/limiter/limiter-actor.ts";
import { type ManifestsDeps, manifestsActor } from "../actors/manifests/manifests-actor.ts";
import { createModels } from "../actors/models/create-models.ts";
import { type NodeDeps, nodeActor } from "../actors/node/node-actor.ts";
import { TextPace } from "../actors/run/output/text-pace.ts";
import { patterns } from "../actors/run/patterns/patterns.ts";
import type { ThreadDeps } from "../actors/thread/deps.ts";
import { threadActor } from "../actors/thread/thread-actor.ts";
import { registriesOf } from "../actors/tools/registry/registries.ts";
import { turnActor } from "../actors/turn/turn-actor.ts";
import type { Env } from "../bus/env.ts";
import { AuditLog } from "../governance/audit.ts";
import { createLogger } from "../governance/log.ts";
import { Metrics } from "../governance/metrics.ts";
import { SecretMask } from "../governance/secret-mask.ts";
import { objectStoreConfigOf } from "../governance/settings/object-store-config.ts";
import type { Settings } from "../governance/settings/settings.ts";
import { createResolver } from "../manifests/resolve.ts";
import { openObjectStore } from "../storage/objects/open.ts";
import type { StoreConfig } from "../storage/store/config.ts";
import type { Store } from "../storage/store/store.ts";
import { ThreadKeys } from "../storage/tables/thread-keys.ts";

/** What a thread is started with; it crosses to the thread as it is. */
export interface NodeConfig {
  readonly node: number;
  /** The nodes that hold actors, in the same order everywhere. */
  readonly actorNodes: readonly number[];
  readonly settings: Settings;
  readonly store: StoreConfig;
  /** Random, new at every start of the process. */
  readonly bootId: string;
  /** How often this node was started before, in this process. */
  readonly incarnation: number;
}

/** What the actors of one thread need, each kind its part of it. */
export type ActorDeps = LimiterDeps & ManifestsDeps & NodeDeps & ThreadDeps;

/** Every kind of actor that a node can hold. */
export const actorKinds = [limiterActor, manifestsActor, nodeActor, threadActor, turnActor];

/** Builds what the actors of one node share. */
export function createActorDeps(config: NodeConfig, env: Env, store: Store): ActorDeps {
  const { settings } = config;
  const metrics = new Metrics();
  const mask = new SecretMask(settings.secretValues);
  const models = createModels(settings, env, mask);
  const registries = registriesOf(settings, models);
  const objects = openObjectStore(objectStoreConfigOf(settings), env);
  const fromStore = settings.manifestSource === "store";
  const resolver = createResolver({
    env,
    store: fromStore ? store : null,
    objects: fromStore ? objects : null,
    directory: settings.manifestDir === "" ? null : settings.manifestDir,
  });
  return {
    env,
    settings,
    store,
    models,
    tools: registries.tools,
    patterns,
    manifests: new ManifestLibrary(resolver, registries, objects, metrics, () => env.monotonic()),
    threadKeys: new ThreadKeys(store),
    audit: new AuditLog(store, env, mask, settings.auditFlushSeconds, () =>
      metrics.count("svc_buffer_dropped_total", ["audit"]),
    ),
    metrics,
    pace: new TextPace(env),
    mask,
    log: createLogger(settings, mask, { node: config.node }),
    liveRuns: new Set(),
    owner: `${config.bootId}:${config.node}:${config.incarnation}`,
  };
}
