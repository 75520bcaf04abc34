import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import {
  type ManifestPointerRow,
  manifestChanges,
  manifestPointer,
  manifestPointers,
  manifestVersion,
} from "../../storage/tables/manifests.ts";
import { isManifestName, manifestNameCharsMax } from "../fields/names.ts";
import { parseNamed } from "../parse/parse-named.ts";
import type { Manifest } from "../schema/manifest.ts";
import { bundledManifests, type FileLayer, openManifestDirectory } from "../sources/files.ts";
import { openObjectLayer } from "../sources/objects.ts";
import type { ObjectSource } from "../sources/texts.ts";
import { chooseVariant, type Variant } from "./canary.ts";

// Which manifest a request gets. Four layers are asked in turn, and the first that has the name decides, even when what it has
// is invalid:
//
//   store      what the tenant has stored: the active version, or the canary for some threads
//   object     manifests/{tenant}/{name}.json, then manifests/{name}.json
//   directory  SVC_MANIFEST_DIR/{name}.yaml, .yml or .json
//   bundled    what comes with the service

/** The layer that a manifest is from. */
export type ManifestSource = "store" | "object" | "directory" | "bundled";

/** What the layers are made of; with SVC_MANIFEST_SOURCE=bundled there are no store and no objects. */
export interface ManifestLayers {
  readonly env: Env;
  readonly store: Store | null;
  readonly objects: ObjectSource | null;
  /** Path of SVC_MANIFEST_DIR. */
  readonly directory: string | null;
  /** How long an answer of the object store counts. */
  readonly objectFreshMs?: number;
}

/** A manifest, and which one of that name it is. */
export interface ResolvedManifest {
  /** The same object for as long as nothing has changed: what is compiled from it can be kept beside it. */
  readonly manifest: Manifest;
  /** The store's version number; null from the other layers. */
  readonly version: number | null;
  readonly variant: Variant;
  /** Whether other threads may get another version. */
  readonly hasCanary: boolean;
  readonly source: ManifestSource;
}

/** One name that a tenant can ask for. */
export interface ListedManifest {
  readonly name: string;
  readonly version: number | null;
  readonly source: ManifestSource;
  /** The store's row, null from the other layers. */
  readonly pointer: ManifestPointerRow | null;
}

/** Finds the manifest that a name means. */
export interface ManifestResolver {
  /** What a request of this tenant gets. Throws unknown_manifest, or invalid_manifest naming where the manifest is from. */
  resolve(tenantId: string, name: string, threadSuffix: string | null): Promise<ResolvedManifest>;
  /** Whether the files still say what was resolved. What the store and its objects say counts for as long as they give it out. */
  isCurrent(name: string, resolved: ResolvedManifest): boolean;
  /** A stored manifest of the tenant has another version or canary now. Until it is told, the resolver may not see it for a second. */
  forget(tenantId: string, name: string): void;
  /** Every name that the tenant can ask for, sorted, each from the layer that decides. Not every one need be valid. */
  listManifests(tenantId: string): Promise<readonly ListedManifest[]>;
}

/** Names of which it is known what is stored under them, or that nothing is. */
const pointersMax = 10_000;
/** How long that counts, before the store is asked whether any process has changed something. */
const pointersFreshMs = 1_000;
/** Stored versions never change, so parsed ones are kept: this many in a thread. */
const parsedMax = 500;

/** The resolver over the layers that there are. */
export function createResolver(layers: ManifestLayers): ManifestResolver {
  const { env, store } = layers;
  const objects = layers.objects === null ? null : openObjectLayer(layers.objects, env, layers.objectFreshMs);
  const files: { source: ManifestSource; layer: FileLayer }[] = [{ source: "bundled", layer: bundledManifests() }];
  if (layers.directory !== null)
    files.unshift({ source: "directory", layer: openManifestDirectory(layers.directory, () => env.now()) });
  const stored = store === null ? null : openStoreLayer(store, env);
  const lookInFiles = (name: string): ResolvedManifest | null => {
    for (const { source, layer } of files) {
      const manifest = layer.get(name);
      if (manifest !== null) return { manifest, version: null, variant: "stable", hasCanary: false, source };
    }
    return null;
  };
  /**
   * What this turn of the event loop has found: the files are looked at once in it for each name, however many turns ask. A request that
   * was sent behind a change of a file is read in a later one.
   */
  let found = new Map<string, ResolvedManifest | null>();
  const fromFiles = (name: string): ResolvedManifest | null => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const manifest = lookInFiles(name);
    if (found.size === 0)
      env.defer(() => {
        found = new Map();
      });
    found.set(name, manifest);
    return manifest;
  };

  return {
    async resolve(tenantId, name, threadSuffix) {
      const unknown = () => new SvcError("unknown_manifest", { subject: name.slice(0, manifestNameCharsMax) });
      if (!isManifestName(name)) throw unknown();
      const fromStore = await stored?.get(tenantId, name, threadSuffix);
      if (fromStore) return fromStore;
      const fromObject = await objects?.get(tenantId, name);
      if (fromObject)
        return { manifest: fromObject, version: null, variant: "stable", hasCanary: false, source: "object" };
      const fromFile = fromFiles(name);
      if (fromFile === null) throw unknown();
      return fromFile;
    },

    isCurrent(name, { source, manifest }) {
      if (source === "store" || source === "object") return true;
      try {
        return fromFiles(name)?.manifest === manifest;
      } catch {
        return false;
      }
    },

    forget: (tenantId, name) => stored?.forget(tenantId, name),

    async listManifests(tenantId) {
      const listed = new Map<string, ListedManifest>();
      const add = (name: string, source: ManifestSource, pointer: ManifestPointerRow | null = null) => {
        if (!listed.has(name)) listed.set(name, { name, version: pointer?.version ?? null, source, pointer });
      };
      if (store !== null)
        for (const pointer of await manifestPointers(store.tenant(tenantId))) add(pointer.name, "store", pointer);
      for (const name of (await objects?.names(tenantId)) ?? []) add(name, "object");
      for (const { source, layer } of files) for (const name of layer.names()) add(name, source);
      return [...listed.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    },
  };
}

function openStoreLayer(store: Store, env: Env) {
  const parsed = new Map<string, Manifest>();

  async function load(tenant: TenantStore, name: string, version: number): Promise<Manifest> {
    const key = JSON.stringify([tenant.tenantId, name, version]);
    let manifest = parsed.get(key);
    if (manifest === undefined) {
      const row = await manifestVersion(tenant, name, version);
      if (row === undefined) throw new Error(`version ${version} of the manifest ${name} is active but not stored`);
      manifest = parseNamed(JSON.parse(row.manifest), name, `version ${version}`);
    }
    // Taken out and put back: the first of the map is the one that was not asked for the longest.
    parsed.delete(key);
    parsed.set(key, manifest);
    const [oldest] = parsed.keys();
    if (parsed.size > parsedMax && oldest !== undefined) parsed.delete(oldest);
    return manifest;
  }

  /** Asked for by every turn, so kept until somebody says that it has changed, or the store that something has. */
  const pointers = new Map<string, ManifestPointerRow | null>();

  async function pointerOf(tenant: TenantStore, name: string): Promise<ManifestPointerRow | null> {
    const key = `${tenant.tenantId}:${name}`;
    const known = pointers.get(key);
    if (known !== undefined) return known;
    const before = changes;
    const pointer = (await manifestPointer(tenant, name)) ?? null;
    // What was read while somebody changed it may be old already.
    if (changes === before) {
      if (pointers.size >= pointersMax) pointers.clear();
      pointers.set(key, pointer);
    }
    return pointer;
  }
  let changes = 0;

  let counted: number | null = null;
  let staleAt = Number.NEGATIVE_INFINITY;
  let asking: Promise<void> | null = null;

  /** Forgets everything when it may not be so any more. Asked before anything is read, so that what is read later is not older. */
  async function lookForChanges(): Promise<void> {
    if (env.monotonic() < staleAt) return;
    asking ??= askForChanges().finally(() => {
      asking = null;
    });
    await asking;
  }

  async function askForChanges(): Promise<void> {
    const askedAt = env.monotonic();
    const count = await manifestChanges(store.system);
    staleAt = askedAt + pointersFreshMs;
    if (count === counted) return;
    counted = count;
    changes++;
    pointers.clear();
  }

  return {
    forget(tenantId: string, name: string): void {
      changes++;
      pointers.delete(`${tenantId}:${name}`);
    },

    async get(tenantId: string, name: string, threadSuffix: string | null): Promise<ResolvedManifest | null> {
      await lookForChanges();
      const tenant = store.tenant(tenantId);
      const pointer = await pointerOf(tenant, name);
      if (pointer === null) return null;
      const variant = chooseVariant({ ...pointer, tenantId, threadSuffix });
      const version = variant === "canary" ? (pointer.canary_version as number) : pointer.version;
      const hasCanary = pointer.canary_version !== null;
      return { manifest: await load(tenant, name, version), version, variant, hasCanary, source: "store" };
    },
  };
}
