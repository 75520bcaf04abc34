import type { Metrics } from "../../governance/metrics.ts";
import { type CompileSource, compile } from "../../manifests/compile.ts";
import type { CompiledAgent } from "../../manifests/compiled.ts";
import type { Registries } from "../../manifests/registries.ts";
import type { ManifestResolver, ResolvedManifest } from "../../manifests/resolve.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/texts.ts";

/** How long an answer counts before files and objects are looked at again: many turns begin together, and a person sees no delay. */
const answerFreshMs = 20;
const answersMax = 1_000;
/** How long texts that a manifest takes from the object store count. */
const textsFreshMs = 1000;

interface Answer {
  readonly agent: CompiledAgent;
  /** Another thread may get another answer. */
  readonly hasCanary: boolean;
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
  /** By manifest, for as long as the resolver gives out the same one, and then by tenant. */
  readonly #answers = new Map<string, Compiled>();
  /** Turns that begin while an answer is being looked for wait for the same one. */
  readonly #asked = new Map<string, Promise<Answer>>();
  #changes = 0;
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
  }

  /** The agent that a request of this tenant gets. Refuses with unknown_manifest and invalid_manifest. */
  async resolve(tenantId: string, name: string, threadSuffix: string | null): Promise<CompiledAgent> {
    const key = `${tenantId}:${name}`;
    const answer = this.#answers.get(key);
    if (answer && answer.staleAt > this.#monotonic()) return answer.agent;
    const asked = this.#asked.get(key);
    if (asked) {
      const { agent, hasCanary } = await asked;
      return hasCanary ? (await this.#find(tenantId, name, threadSuffix)).agent : agent;
    }
    const changes = this.#changes;
    const asking = this.#find(tenantId, name, threadSuffix);
    this.#asked.set(key, asking);
    try {
      const { agent, hasCanary } = await asking;
      // What was read while somebody changed it may be old already.
      if (!hasCanary && changes === this.#changes) {
        if (this.#answers.size >= answersMax) this.#answers.clear();
        this.#answers.set(key, { agent, staleAt: this.#monotonic() + answerFreshMs });
      }
      return agent;
    } finally {
      if (this.#asked.get(key) === asking) this.#asked.delete(key);
    }
  }

  async #find(tenantId: string, name: string, threadSuffix: string | null): Promise<Answer> {
    const resolved = await this.#resolver.resolve(tenantId, name, threadSuffix);
    return { agent: await this.compiled(resolved, tenantId), hasCanary: resolved.hasCanary };
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
        version === null ? [agent.name, rule, kind] : ["custom", "custom", kind],
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
    return this.compile(manifest, { tenantId, version: null, texts });
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
