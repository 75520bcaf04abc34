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

// Finds the manifest of a request. Four layers are searched in order. The first one that has the name decides, even if
// its manifest is invalid:
//
//   store      manifests stored by the tenant: the active version, or the canary for some threads
//   object     manifests/{tenant}/{name}.json, then manifests/{name}.json
//   directory  SVC_MANIFEST_DIR/{name}.yaml, .yml or .json
//   bundled    manifests that ship with svc

/** The layer that a manifest comes from. */
export type ManifestSource = "store" | "object" | "directory" | "bundled";

/** Configuration of the layers. With SVC_MANIFEST_SOURCE=bundled, store and objects are null. */
export interface ManifestLayers {
  readonly env: Env;
  readonly store: Store | null;
  readonly objects: ObjectSource | null;
  /** Path of SVC_MANIFEST_DIR. */
  readonly directory: string | null;
  /** Folders of the manifests that ship with plugins. */
  readonly ofPlugins?: readonly string[];
  /** Cache time of objects, in milliseconds. */
  readonly objectFreshMs?: number;
}

/** A manifest with its version and source. */
export interface ResolvedManifest {
  /** The same object until a change, so that callers can cache results of its compilation. */
  readonly manifest: Manifest;
  /** Version in the store; null for other layers. */
  readonly version: number | null;
  readonly variant: Variant;
  /** True if other threads may get another version. */
  readonly hasCanary: boolean;
  readonly source: ManifestSource;
}

/** A manifest name that a tenant can use. */
export interface ListedManifest {
  readonly name: string;
  readonly version: number | null;
  readonly source: ManifestSource;
  /** The store's row, null for other layers. */
  readonly pointer: ManifestPointerRow | null;
}

/** Resolves manifest names. */
export interface ManifestResolver {
  /**
   * Returns the manifest for a request of this tenant, or for a null tenant the operator's own, which no tenant has stored. Throws
   * unknown_manifest, or invalid_manifest with the origin.
   */
  resolve(tenantId: string | null, name: string, threadSuffix: string | null): Promise<ResolvedManifest>;
  /** True if the manifest is still the current one of its file. Always true for the store and for objects. */
  isCurrent(name: string, resolved: ResolvedManifest): boolean;
  /**
   * Invalidates the cached pointer of a stored manifest. Without this call, the resolver sees a change within a second.
   */
  forget(tenantId: string, name: string): void;
  /**
   * Returns every name that the tenant can use, sorted, each from its deciding layer. Some manifests may be invalid.
   */
  listManifests(tenantId: string): Promise<readonly ListedManifest[]>;
}

/** Max cached pointers, including those of names that are not stored. */
const pointersMax = 10_000;
/** Cache time of pointers, after which the store is checked for changes by any process. */
const pointersFreshMs = 1_000;
/** Max cached manifests per thread; stored versions never change. */
const parsedMax = 500;

/** Creates a resolver over the configured layers. */
export function createResolver(layers: ManifestLayers): ManifestResolver {
  const { env, store } = layers;
  const objects = layers.objects === null ? null : openObjectLayer(layers.objects, env, layers.objectFreshMs);
  const files: { source: ManifestSource; layer: FileLayer }[] = [
    { source: "bundled", layer: bundledManifests(layers.ofPlugins) },
  ];
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
   * Results of this event-loop turn: each name is looked up in the files once, independent of the number of requests. A
   * request after a change of a file is read in a later turn.
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
      const fromStore = tenantId === null ? null : await stored?.get(tenantId, name, threadSuffix);
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
    // Reinserted at the end, so that the first entry of the map is the least recently used.
    parsed.delete(key);
    parsed.set(key, manifest);
    const [oldest] = parsed.keys();
    if (parsed.size > parsedMax && oldest !== undefined) parsed.delete(oldest);
    return manifest;
  }

  /**
   * Cached pointers, because every turn needs one. Invalidated by `forget`, and by a change of the counter in the
   * store.
   */
  const pointers = new Map<string, ManifestPointerRow | null>();

  async function pointerOf(tenant: TenantStore, name: string): Promise<ManifestPointerRow | null> {
    const key = `${tenant.tenantId}:${name}`;
    const known = pointers.get(key);
    if (known !== undefined) return known;
    const before = changes;
    const pointer = (await manifestPointer(tenant, name)) ?? null;
    // Not cached if a change occurred during the read.
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

  /**
   * Clears the cache if any process has changed a pointer. Called before each read, so that later reads are at least as
   * new.
   */
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
