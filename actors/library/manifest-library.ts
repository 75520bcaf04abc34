import { SvcError } from "../../bus/errors.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { type CompileSource, compile } from "../../manifests/compile/compile.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { parseNamed } from "../../manifests/parse/parse-named.ts";
import type { Registries } from "../../manifests/registries.ts";
import type { ManifestResolver, ResolvedManifest } from "../../manifests/resolve/resolve.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { manifestVersion } from "../../storage/tables/manifests.ts";
import { KeptBodies, type KeptManifests } from "./kept-bodies.ts";
import { type FindAgent, withSubAgents } from "./sub-agents.ts";
import { wholeRefusal } from "./whole-refusal.ts";

/** How long a resolved agent is reused without asking all layers, for bursts of turns. Files are checked each time. */
const answerFreshMs = 20;
const answersMax = 1_000;
/** How long texts from the object store are reused. */
const textsFreshMs = 1000;

interface Answer {
  readonly agent: CompiledAgent;
  readonly resolved: ResolvedManifest;
}

interface KeptAnswer extends Answer {
  /** Monotonic milliseconds. */
  readonly staleAt: number;
}

interface Compiled {
  readonly agent: CompiledAgent;
  /** Monotonic milliseconds after which its texts may have changed. */
  readonly staleAt: number;
}

/** The version of a manifest that a request brings. Versions of the store count from 1. */
export const unsavedVersion = 0;

/** Resolves manifests and caches the compiled agents, for the turns of one thread. */
export class ManifestLibrary {
  readonly #resolver: ManifestResolver;
  readonly #registries: Registries;
  readonly #objects: ObjectSource;
  readonly #metrics: Metrics;
  readonly #monotonic: () => number;
  readonly #kept: KeptBodies;
  /** By tenant and name. */
  readonly #answers = new Map<string, KeptAnswer>();
  /** Resolutions in progress; concurrent turns share one. */
  readonly #asked = new Map<string, Promise<Answer>>();
  #changes = 0;
  /** By manifest object, as long as the resolver returns the same one, then by tenant. */
  readonly #compiled = new WeakMap<Manifest, Map<string, Compiled>>();

  constructor(
    resolver: ManifestResolver,
    registries: Registries,
    objects: ObjectSource,
    metrics: Metrics,
    monotonic: () => number,
  ) {
    this.#resolver = resolver;
    this.#registries = registries;
    this.#objects = objects;
    this.#metrics = metrics;
    this.#monotonic = monotonic;
    this.#kept = new KeptBodies(monotonic);
  }

  /** Returns the cached agent for a request of this tenant; null if it must be resolved. */
  known(tenantId: string, name: string): CompiledAgent | null {
    const kept = this.#answers.get(`${tenantId}:${name}`);
    const isCurrent = kept && kept.staleAt > this.#monotonic() && this.#resolver.isCurrent(name, kept.resolved);
    return isCurrent ? kept.agent : null;
  }

  /** Returns the agent for a request of this tenant. Refuses with unknown_manifest or invalid_manifest. */
  async resolve(tenantId: string, name: string, threadSuffix: string | null): Promise<CompiledAgent> {
    const known = this.known(tenantId, name);
    if (known !== null) return known;
    const key = `${tenantId}:${name}`;
    const asked = this.#asked.get(key);
    if (asked !== undefined) {
      // The shared resolution may have started before the latest change of the file.
      const answer = await asked.catch(() => null);
      const isShared =
        answer !== null &&
        answer.agent.subAgents.length === 0 &&
        !answer.resolved.hasCanary &&
        this.#resolver.isCurrent(name, answer.resolved);
      return (isShared ? answer : await this.#find(tenantId, name, threadSuffix)).agent;
    }
    const changes = this.#changes;
    const asking = this.#find(tenantId, name, threadSuffix);
    this.#asked.set(key, asking);
    try {
      const answer = await asking;
      // Do not cache an agent with a canary, because its variant depends on the thread, or with sub-agents, because any of them
      // may change. Do not cache one that changed during the resolution either.
      const isAlone = answer.agent.subAgents.length === 0;
      if (isAlone && !answer.resolved.hasCanary && changes === this.#changes) {
        if (this.#answers.size >= answersMax) this.#answers.clear();
        this.#answers.set(key, { ...answer, staleAt: this.#monotonic() + answerFreshMs });
      }
      return answer.agent;
    } finally {
      if (this.#asked.get(key) === asking) this.#asked.delete(key);
    }
  }

  async #find(tenantId: string, name: string, threadSuffix: string | null): Promise<Answer> {
    try {
      const resolved = await this.#resolver.resolve(tenantId, name, threadSuffix);
      const agent = await this.compiled(resolved, tenantId);
      if (agent.manifest.spec.sub_agents.length === 0) return { agent, resolved };
      return { agent: await withSubAgents(agent, this.#askedBy(tenantId, threadSuffix)), resolved };
    } catch (error) {
      throw await this.refusal(error, tenantId, threadSuffix);
    }
  }

  /** Returns a function that finds sub-agents. */
  #askedBy(tenantId: string, threadSuffix: string | null): FindAgent {
    return async (name) => this.compiled(await this.#resolver.resolve(tenantId, name, threadSuffix), tenantId);
  }

  /** See `wholeRefusal`. */
  refusal(error: unknown, tenantId: string, threadSuffix: string | null = null): Promise<unknown> {
    const find = this.#askedBy(tenantId, threadSuffix);
    return wholeRefusal(error, { tenantId, registries: this.#registries, objects: this.#objects, find });
  }

  /** See `KeptBodies.keep`. */
  keep(store: TenantStore, agent: CompiledAgent): ReturnType<KeptBodies["keep"]> {
    return this.#kept.keep(store, agent);
  }

  /**
   * Compiles the agent stored under a digest with the registries of this process. Undefined if the tenant has none. Refuses with
   * invalid_manifest if this process can no longer run it.
   */
  async kept(store: TenantStore, digest: string): Promise<CompiledAgent | undefined> {
    const { tenantId } = store;
    const kept = await this.#kept.read(store, digest);
    if (kept === undefined) return undefined;
    const [own, ...subAgents] = kept;
    const made = ({ manifest, version }: KeptManifests[0]) =>
      this.compiled({ manifest, version, variant: "stable", hasCanary: false, source: "store" }, tenantId);
    const agent = await made(own);
    if (subAgents.length === 0) return agent;
    return withSubAgents(agent, async (name) => {
      const subAgent = subAgents.find(({ manifest }) => manifest.metadata.name === name);
      if (subAgent === undefined) throw new SvcError("unknown_manifest", { subject: name });
      return made(subAgent);
    });
  }

  /** Compiles a resolved manifest; cached. */
  async compiled(resolved: ResolvedManifest, tenantId: string): Promise<CompiledAgent> {
    const { manifest, version } = resolved;
    let ofTenants = this.#compiled.get(manifest);
    const known = ofTenants?.get(tenantId);
    if (known && known.staleAt > this.#monotonic()) return known.agent;
    const keys = neededTexts(manifest, tenantId);
    const texts = await readTexts(this.#objects, keys);
    const agent = this.compile(manifest, { tenantId, version, texts });
    // A tenant's names are not used as labels (decision 19: labels contain no free text).
    for (const { rule, kind } of agent.emptyRules)
      this.#metrics.count(
        "svc_rule_targets_nothing_total",
        version === null ? { manifest_id: agent.name, rule, kind } : { manifest_id: "custom", rule: "custom", kind },
      );
    ofTenants ??= new Map();
    const staleAt = keys.length === 0 ? Number.POSITIVE_INFINITY : this.#monotonic() + textsFreshMs;
    ofTenants.set(tenantId, { agent, staleAt });
    this.#compiled.set(manifest, ofTenants);
    return agent;
  }

  /** Checks, before it is stored, that this version can run a manifest with the current texts of the object store. Refuses with invalid_manifest. */
  async check(manifest: Manifest, tenantId: string): Promise<CompiledAgent> {
    const texts = await readTexts(this.#objects, neededTexts(manifest, tenantId));
    const agent = this.compile(manifest, { tenantId, version: null, isStored: true, texts });
    return withSubAgents(agent, this.#askedBy(tenantId, null));
  }

  /**
   * Compiles a version of the tenant's store, active or not. Refuses with unknown_manifest and invalid_manifest.
   */
  async atVersion(store: TenantStore, name: string, version: number): Promise<CompiledAgent> {
    const row = await manifestVersion(store, name, version);
    if (row === undefined) {
      const message = `There is no version ${version} of the manifest ${name}.`;
      throw new SvcError("unknown_manifest", { subject: name, message });
    }
    const { tenantId } = store;
    const manifest = parseNamed(JSON.parse(row.manifest), name, `version ${version}`);
    const resolved = { manifest, version, variant: "stable", hasCanary: false, source: "store" } as const;
    return withSubAgents(await this.compiled(resolved, tenantId), this.#askedBy(tenantId, null));
  }

  /** Compiles a manifest that is stored nowhere, with the limits of a tenant's own and the version 0. Refuses with invalid_manifest. */
  async unsaved(source: unknown, tenantId: string): Promise<CompiledAgent> {
    try {
      const manifest = parseNamed(source, null, "the manifest");
      const resolved = {
        manifest,
        version: unsavedVersion,
        variant: "stable",
        hasCanary: false,
        source: "store",
      } as const;
      return await withSubAgents(await this.compiled(resolved, tenantId), this.#askedBy(tenantId, null));
    } catch (error) {
      throw await this.refusal(error, tenantId);
    }
  }

  compile(manifest: Manifest, source: CompileSource): CompiledAgent {
    return compile(manifest, this.#registries, source);
  }

  /** Drops cached entries after a tenant's manifest changed. */
  forget(tenantId: string, name: string): void {
    this.#resolver.forget(tenantId, name);
    this.#changes++;
    this.#answers.clear();
    this.#asked.clear();
  }

  /** See `ManifestResolver.listManifests`. */
  list(tenantId: string) {
    return this.#resolver.listManifests(tenantId);
  }

  /** See `ManifestResolver.resolve`. */
  find(tenantId: string | null, name: string, threadSuffix: string | null): Promise<ResolvedManifest> {
    return this.#resolver.resolve(tenantId, name, threadSuffix);
  }
}
