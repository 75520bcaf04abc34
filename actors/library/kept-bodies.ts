import { createHash } from "node:crypto";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { parseNamed } from "../../manifests/parse/parse-named.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { keepBodyOp, keptMs, manifestBody } from "../../storage/tables/manifest-bodies.ts";

/** A manifest as a run was accepted with it. */
interface KeptManifest {
  readonly manifest: Manifest;
  /** The store's version number; null for one of the operator. */
  readonly version: number | null;
}

/** What an agent is made of: its own manifest, then those of the agents that it is made of, each once. */
export type KeptManifests = readonly [KeptManifest, ...KeptManifest[]];

interface Body {
  readonly digest: string;
  readonly body: string;
}

/** Agents of which it is remembered what was kept, and bodies that were read: so many in a thread. */
const rememberedMax = 500;

/** What durable runs are accepted with, written once and read again: the store has it, and a thread remembers what it has seen. */
export class KeptBodies {
  readonly #monotonic: () => number;
  readonly #bodies = new WeakMap<CompiledAgent, Body>();
  /** Until when a body is in the store for certain, by tenant and digest; monotonic milliseconds. */
  readonly #keptUntil = new Map<string, number>();
  readonly #read = new Map<string, KeptManifests>();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Under which digest the agent is kept, and what has to be written for that together with the run; `kept` is told when it is. */
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

  /** What was kept under a digest: the same objects for as long as they are remembered. Undefined when the tenant has nothing there. */
  async read(store: TenantStore, digest: string): Promise<KeptManifests | undefined> {
    const key = `${store.tenantId}:${digest}`;
    const known = this.#read.get(key);
    if (known !== undefined) return known;
    const row = await manifestBody(store, digest);
    if (row === undefined) return undefined;
    // Read like one that is stored: what this version has come to know of manifests gets its default.
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
