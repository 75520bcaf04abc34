import { SvcError } from "../../bus/errors.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { type CompileSource, compile } from "../../manifests/compile/compile.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { Registries } from "../../manifests/registries.ts";
import type { ManifestResolver, ResolvedManifest } from "../../manifests/resolve/resolve.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { KeptBodies, type KeptManifests } from "./kept-bodies.ts";
import { type FindAgent, withSubAgents } from "./sub-agents.ts";
import { wholeRefusal } from "./whole-refusal.ts";

/** How long an answer counts before all layers are asked again: many turns begin together. Files are looked at for each. */
const answerFreshMs = 20;
const answersMax = 1_000;
/** How long texts that a manifest takes from the object store count. */
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
  /** Monotonic milliseconds; what it was made of may have changed after it. */
  readonly staleAt: number;
}

/** Resolves manifests and keeps what was compiled from them, for the turns of one thread. */
export class ManifestLibrary {
  readonly #resolver: ManifestResolver;
  readonly #registries: Registries;
  readonly #objects: ObjectSource;
  readonly #metrics: Metrics;
  readonly #monotonic: () => number;
  readonly #kept: KeptBodies;
  /** By tenant and name. */
  readonly #answers = new Map<string, KeptAnswer>();
  /** Turns that begin while an answer is being looked for wait for the same one. */
  readonly #asked = new Map<string, Promise<Answer>>();
  #changes = 0;
  /** By manifest, for as long as the resolver gives out the same one, and then by tenant. */
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

  /** The agent that a request of this tenant gets, where that is known without a look; else null. */
  known(tenantId: string, name: string): CompiledAgent | null {
    const kept = this.#answers.get(`${tenantId}:${name}`);
    const isCurrent = kept && kept.staleAt > this.#monotonic() && this.#resolver.isCurrent(name, kept.resolved);
    return isCurrent ? kept.agent : null;
  }

  /** The agent that a request of this tenant gets. Refuses with unknown_manifest and invalid_manifest. */
  async resolve(tenantId: string, name: string, threadSuffix: string | null): Promise<CompiledAgent> {
    const known = this.known(tenantId, name);
    if (known !== null) return known;
    const key = `${tenantId}:${name}`;
    const asked = this.#asked.get(key);
    if (asked !== undefined) {
      // It may have been looked for before the file was what it is now.
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
      // With a canary the answer is the thread's own; what was read while somebody changed it may be old already.
      // An agent that is made of others is looked at for each turn: any of them may have changed.
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

  /** Looks up what an agent is made of. */
  #askedBy(tenantId: string, threadSuffix: string | null): FindAgent {
    return async (name) => this.compiled(await this.#resolver.resolve(tenantId, name, threadSuffix), tenantId);
  }

  /** See `wholeRefusal`. */
  refusal(error: unknown, tenantId: string, threadSuffix: string | null = null): Promise<unknown> {
    const find = this.#askedBy(tenantId, threadSuffix);
    return wholeRefusal(error, { tenantId, registries: this.#registries, objects: this.#objects, find });
  }

  /** Under which digest what a durable run is accepted with is kept, and what is to be written for it: see `KeptBodies.keep`. */
  keep(store: TenantStore, agent: CompiledAgent): ReturnType<KeptBodies["keep"]> {
    return this.#kept.keep(store, agent);
  }

  /**
   * The agent that was kept under a digest, made ready to run by what this process has. Undefined when the tenant has kept nothing there.
   * Refuses with invalid_manifest what this process cannot run any more.
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

  /** What was resolved, made ready to run. */
  async compiled(resolved: ResolvedManifest, tenantId: string): Promise<CompiledAgent> {
    const { manifest, version } = resolved;
    let ofTenants = this.#compiled.get(manifest);
    const known = ofTenants?.get(tenantId);
    if (known && known.staleAt > this.#monotonic()) return known.agent;
    const keys = neededTexts(manifest, tenantId);
    const texts = await readTexts(this.#objects, keys);
    const agent = this.compile(manifest, { tenantId, version, texts });
    // A tenant's own words do not become labels (decision 19).
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

  /** Holds a manifest against what this version can run, with the texts that the store has now. Refuses with invalid_manifest. */
  async check(manifest: Manifest, tenantId: string): Promise<CompiledAgent> {
    const texts = await readTexts(this.#objects, neededTexts(manifest, tenantId));
    const agent = this.compile(manifest, { tenantId, version: null, texts });
    return withSubAgents(agent, this.#askedBy(tenantId, null));
  }

  compile(manifest: Manifest, source: CompileSource): CompiledAgent {
    return compile(manifest, this.#registries, source);
  }

  /** A tenant's manifest has changed. */
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
  find(tenantId: string, name: string, threadSuffix: string | null): Promise<ResolvedManifest> {
    return this.#resolver.resolve(tenantId, name, threadSuffix);
  }
}
