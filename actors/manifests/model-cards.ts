import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import type { ModelCard } from "../../bus/protocol/manifests.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { ListedManifest } from "../../manifests/resolve/resolve.ts";
import { neededTexts, type ObjectSource, readTexts } from "../../manifests/sources/texts.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { modelCard } from "./model-card.ts";

/** Cards of stored versions, in one thread. A card takes a hundredth of its compiled manifest, so that many more are kept. */
const cardsMax = 20_000;

/** The texts of the object store that a card was made with. */
interface Texts {
  readonly keys: readonly string[];
  readonly digest: string;
}

interface KeptCard {
  /** Null when the manifest does not compile. */
  readonly card: ModelCard | null;
  /** Null when it needs none: then it is good forever. */
  readonly texts: Texts | null;
}

/**
 * What the manifests of all tenants are as models. Stored versions never change, so that their cards are kept by version and neither
 * parsed nor compiled again while the texts that they take from the object store are the same; which version is in effect is for
 * the caller to ask. Manifests of other layers are compiled for each look, from what the library keeps.
 */
export class ModelCards {
  readonly #library: ManifestLibrary;
  readonly #objects: ObjectSource;
  readonly #kept = new Map<string, KeptCard>();
  /** Callers that ask for the same card at once wait for the same one. */
  readonly #making = new Map<string, Promise<ModelCard | null>>();

  constructor(library: ManifestLibrary, objects: ObjectSource) {
    this.#library = library;
    this.#objects = objects;
  }

  /** Null when the manifest does not compile: one such does not hide the others. */
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

  /** Takes the card of a version that was compiled to be stored. */
  keep(tenantId: string, { name, version }: { name: string; version: number }, agent: CompiledAgent): void {
    // With texts it is made when it is asked for, by those that are there then.
    if (neededTexts(agent.manifest, tenantId).length === 0)
      this.#put(keyOf(tenantId, name, version), { card: modelCard(agent), texts: null });
  }

  async #makeVersion(tenantId: string, name: string, version: number): Promise<ModelCard | null> {
    const made = await this.#make(tenantId, name);
    // Another version may have come into effect since the caller looked.
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
      // What the library keeps may have been made with other texts than those that the digest is of.
      const found = await readTexts(this.#objects, keys);
      texts = { keys, digest: digestOf(found) };
      return { card: modelCard(this.#library.compile(manifest, { tenantId, version, texts: found })), texts, version };
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      // The store may be back, or the file right, at the next look.
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
