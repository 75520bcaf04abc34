import type { Env } from "../../bus/env.ts";
import { isManifestName } from "../fields/names.ts";
import { parseNamed } from "../parse/parse-named.ts";
import type { Manifest } from "../schema/manifest.ts";
import { globalManifestPrefix, tenantManifestPrefix } from "./object-keys.ts";
import type { ObjectSource } from "./texts.ts";

/** Cache time of objects in milliseconds, because two lookups per turn would cost more than the turn's own reads. */
export const objectFreshMs = 1000;
const knownMax = 1000;
const pageSize = 500;
const pagesMax = 40;

/** Manifests in the object store; those of the tenant have precedence over the global ones. */
export interface ObjectLayer {
  /**
   * Returns null if there is none; for a null tenant, only a global one. Throws invalid_manifest with the key. `name` has passed
   * isManifestName.
   */
  get(tenantId: string | null, name: string): Promise<Manifest | null>;
  names(tenantId: string): Promise<readonly string[]>;
}

/** Opens the layer, which sees a change of an object within `freshMs`. */
export function openObjectLayer(objects: ObjectSource, env: Env, freshMs = objectFreshMs): ObjectLayer {
  const known = new Map<string, Answer>();

  async function load(key: string, name: string, last: Loaded | null): Promise<Loaded> {
    const bytes = await objects.get(key);
    if (bytes === null) return { bytes, read: () => null };
    // Returns the same manifest object for the same bytes, so that its compiled form stays valid.
    if (last?.bytes && Buffer.compare(last.bytes, bytes) === 0) return last;
    try {
      const manifest = parseNamed(bytes, name, key);
      return { bytes, read: () => manifest };
    } catch (error) {
      const read = () => {
        throw error;
      };
      return { bytes, read };
    }
  }

  async function lookUp(key: string, name: string): Promise<Manifest | null> {
    let answer = known.get(key);
    if (answer === undefined || env.monotonic() >= answer.staleAt) {
      const last = answer?.loaded ?? null;
      const fresh: Answer = { staleAt: env.monotonic() + freshMs, loading: load(key, name, last), loaded: last };
      known.delete(key);
      known.set(key, fresh);
      for (const oldest of known.keys()) {
        if (known.size <= knownMax) break;
        known.delete(oldest);
      }
      answer = fresh;
    }
    try {
      answer.loaded = await answer.loading;
    } catch (error) {
      if (known.get(key) === answer) known.delete(key);
      throw error;
    }
    return answer.loaded.read();
  }

  return {
    get: async (tenantId, name) =>
      (tenantId === null ? null : await lookUp(`${tenantManifestPrefix(tenantId)}${name}.json`, name)) ??
      (await lookUp(`${globalManifestPrefix}${name}.json`, name)),
    names: async (tenantId) => [
      ...(await listNames(objects, tenantManifestPrefix(tenantId))),
      ...(await listNames(objects, globalManifestPrefix)),
    ],
  };
}

interface Loaded {
  readonly bytes: Uint8Array | null;
  read(): Manifest | null;
}

interface Answer {
  readonly staleAt: number;
  readonly loading: Promise<Loaded>;
  loaded: Loaded | null;
}

/** Returns the manifests directly below a prefix; deeper keys belong to tenants. */
async function listNames(objects: ObjectSource, prefix: string): Promise<string[]> {
  const names: string[] = [];
  let after: string | undefined;
  for (let page = 0; page < pagesMax; page++) {
    const keys = await objects.list(prefix, pageSize, after);
    for (const key of keys) {
      const file = key.slice(prefix.length);
      const name = file.endsWith(".json") ? file.slice(0, -".json".length) : "";
      if (isManifestName(name)) names.push(name);
    }
    after = keys.at(-1);
    if (keys.length < pageSize) break;
  }
  return names;
}
