import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import type { ModelCard } from "../../bus/protocol/manifests.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ListedManifest } from "../../manifests/resolve/resolve.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { modelCard } from "./model-card.ts";

/** Max cached cards of stored versions in one thread. A card is a hundredth the size of its compiled manifest. */
const cardsMax = 20_000;

/** The object-store texts from which a card was made. */
interface Texts {
  readonly keys: readonly string[];
  readonly digest: string;
}

interface KeptCard {
  /** Null if the manifest does not compile. */
  readonly card: ModelCard | null;
  /** Null if it uses no texts; then the card never expires. */
  readonly texts: Texts | null;
}

/**
 * Caches the model cards of all tenants' manifests. Stored versions never change, so their cards are cached by version and
 * recomputed only if their object-store texts change. The caller determines which version is active. Manifests of other layers
 * use the library's cache.
 */
export class ModelCards {
  readonly #library: ManifestLibrary;
  readonly #objects: ObjectSource;
  readonly #kept = new Map<string, KeptCard>();
  /** Cards in progress; concurrent callers share one. */
  readonly #making = new Map<string, Promise<ModelCard | null>>();

  constructor(library: ManifestLibrary, objects: ObjectSource) {
    this.#library = library;
    this.#objects = objects;
  }

  /** Returns null if the manifest does not compile, so that it does not hide the others. */
  async of(tenantId: string, listed: Pick<ListedManifest, "name" | "version" | "source">): Promise<ModelCard | null> {
    const { name, version, source } = listed;
    if (source !== "store" || version === null) return (await this.#make(tenantId, name)).card;
    const key = keyOf(tenantId, name, version);
    const kept = this.#kept.get(key);
    if (kept?.texts === null) return kept.card;
    if (kept?.texts && kept.texts.digest === digestOf(await readTexts(this.#objects, kept.texts.keys)))
      return kept.card;
    let making = this.#making.get(key);
    if (making === undefined) {
      making = this.#makeVersion(tenantId, name, version).finally(() => this.#making.delete(key));
      this.#making.set(key, making);
    }
    return making;
  }

  /** Caches the card of a version that was compiled to be stored. */
  keep(tenantId: string, { name, version }: { name: string; version: number }, agent: CompiledAgent): void {
    // A card with texts is made on demand, with the texts of that time.
    if (neededTexts(agent.manifest, tenantId).length === 0)
      this.#put(keyOf(tenantId, name, version), { card: modelCard(agent), texts: null });
  }

  async #makeVersion(tenantId: string, name: string, version: number): Promise<ModelCard | null> {
    const made = await this.#make(tenantId, name);
    // Another version may have become active since the caller's lookup.
    if (made.version === version) this.#put(keyOf(tenantId, name, version), made);
    return made.card;
  }

  async #make(tenantId: string, name: string): Promise<KeptCard & { readonly version: number | null }> {
    let version: number | null = null;
    let texts: Texts | null = null;
    try {
      const resolved = await this.#library.find(tenantId, name, null);
      version = resolved.version;
      const { manifest } = resolved;
      const keys = neededTexts(manifest, tenantId);
      if (keys.length === 0)
        return { card: modelCard(await this.#library.compiled(resolved, tenantId)), texts, version };
      // The library's cache may hold older texts than the digest covers.
      const found = await readTexts(this.#objects, keys);
      texts = { keys, digest: digestOf(found) };
      return { card: modelCard(this.#library.compile(manifest, { tenantId, version, texts: found })), texts, version };
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      // The store may be available, or the file valid, at the next lookup.
      if (error.code !== "invalid_manifest") version = null;
      return { card: null, texts, version };
    }
  }

  #put(key: string, { card, texts }: KeptCard): void {
    this.#kept.delete(key);
    this.#kept.set(key, { card, texts });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > cardsMax && oldest !== undefined) this.#kept.delete(oldest);
  }
}

function digestOf(texts: ReadonlyMap<string, string>): string {
  return createHash("sha256")
    .update(JSON.stringify([...texts]))
    .digest("hex");
}

function keyOf(tenantId: string, name: string, version: number): string {
  return JSON.stringify([tenantId, name, version]);
}
