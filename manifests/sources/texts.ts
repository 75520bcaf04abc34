import { decodeUtf8 } from "../parse/read-source.ts";
import type { Manifest } from "../schema/manifest.ts";
import { promptKeys, soulKey } from "./object-keys.ts";

/** What the manifests need of an object store. */
export interface ObjectSource {
  /** Null when there is no such key. */
  get(key: string): Promise<Uint8Array | null>;
  /** Keys that begin with `prefix` and come after `after`, in order. */
  list(prefix: string, limit: number, after?: string): Promise<readonly string[]>;
}

/** Object keys that may hold texts of the manifest, for the compiler. Some need not be there. */
export function neededTexts({ spec }: Manifest, tenantId: string): string[] {
  const { soul, files, system_md } = spec.system_prompt;
  const keys: string[] = [];
  if (system_md === null) {
    if (soul) keys.push(soulKey(tenantId));
    for (const file of files) keys.push(...promptKeys(tenantId, file));
  }
  for (const { body, file } of spec.prompts) if (body === "" && file !== null) keys.push(...promptKeys(tenantId, file));
  return [...new Set(keys)];
}

/** The texts of those keys that are there; what is not UTF-8 counts as not there. */
export async function readTexts(objects: ObjectSource, keys: readonly string[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const key of keys) {
    const bytes = await objects.get(key);
    const text = bytes === null ? null : decodeUtf8(bytes);
    if (text !== null) texts.set(key, text);
  }
  return texts;
}
