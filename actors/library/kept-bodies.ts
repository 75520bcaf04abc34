import { createHash } from "node:crypto";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { parseNamed } from "../../manifests/parse/parse-named.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { keepBodyOp, keptMs, manifestBody } from "../../storage/tables/manifest-bodies.ts";

/** A manifest at the time a run was accepted. */
interface KeptManifest {
  readonly manifest: Manifest;
  /** The version in the store; null for an operator's manifest. */
  readonly version: number | null;
}

/** The manifests of an agent: its own, then those of its sub-agents, each once. */
export type KeptManifests = readonly [KeptManifest, ...KeptManifest[]];

interface Body {
  readonly digest: string;
  readonly body: string;
}

/** Max cached digests and bodies of a thread. */
const rememberedMax = 500;

/**
 * Stores the manifests with which durable runs were accepted. Each body is written once; a thread caches what it has written and
 * read.
 */
export class KeptBodies {
  readonly #monotonic: () => number;
  readonly #bodies = new WeakMap<CompiledAgent, Body>();
  /** Until when a body is known to be in the store, by tenant and digest; monotonic milliseconds. */
  readonly #keptUntil = new Map<string, number>();
  readonly #read = new Map<string, KeptManifests>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /**
   * Returns the digest of the agent's body, and the statements that store it together with the run. Call `kept` after they have
   * committed.
   */
  keep(store: TenantStore, agent: CompiledAgent): { digest: string; ops: WriteOp[]; kept: () => void } {
    let body = this.#bodies.get(agent);
    if (body === undefined) {
      body = bodyOf(agent);
      this.#bodies.set(agent, body);
    }
    const { digest } = body;
    const key = `${store.tenantId}:${digest}`;
    const isKept = (this.#keptUntil.get(key) ?? Number.NEGATIVE_INFINITY) > this.#monotonic();
    const until = this.#monotonic() + keptMs;
    const kept = (): void => {
      if (isKept) return;
      if (this.#keptUntil.size >= rememberedMax) this.#keptUntil.clear();
      this.#keptUntil.set(key, until);
    };
    return { digest, ops: isKept ? [] : [keepBodyOp(store, body)], kept };
  }

  /** Returns the manifests of a digest, cached so that the same objects are returned. Undefined if the tenant has none. */
  async read(store: TenantStore, digest: string): Promise<KeptManifests | undefined> {
    const key = `${store.tenantId}:${digest}`;
    const known = this.#read.get(key);
    if (known !== undefined) return known;
    const row = await manifestBody(store, digest);
    if (row === undefined) return undefined;
    // Parse it like a stored manifest, so that fields added by newer versions get their defaults.
    const read = (JSON.parse(row.body) as KeptManifests).map(({ manifest, version }) => ({
      manifest: parseNamed(manifest, manifest.metadata.name, "the text of the run"),
      version,
    })) as unknown as KeptManifests;
    if (this.#read.size >= rememberedMax) this.#read.clear();
    this.#read.set(key, read);
    return read;
  }
}

function bodyOf(agent: CompiledAgent): Body {
  const found = new Map<string, KeptManifest>();
  const add = ({ name, manifest, version, subAgents }: CompiledAgent): void => {
    if (found.has(name)) return;
    found.set(name, { manifest, version });
    for (const subAgent of subAgents) add(subAgent);
  };
  add(agent);
  const body = JSON.stringify([...found.values()]);
  return { digest: createHash("sha256").update(body).digest("hex"), body };
}
