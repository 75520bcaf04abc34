import { decodeUtf8 } from "../parse/read-source.ts";
import type { Manifest } from "../schema/manifest.ts";
import { promptKeys, soulKey } from "./object-keys.ts";

/** The part of an object store that manifests use. */
export interface ObjectSource {
  /** Returns null for an unknown key. */
  get(key: string): Promise<Uint8Array | null>;
  /** Returns keys that begin with `prefix` and sort after `after`, in order. */
  list(prefix: string, limit: number, after?: string): Promise<readonly string[]>;
}

/** Returns the object keys of texts that the compiler may need. Some may not exist. */
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

/** Returns the existing texts of these keys; a text that is not UTF-8 counts as absent. */
export async function readTexts(objects: ObjectSource, keys: readonly string[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const key of keys) {
    const bytes = await objects.get(key);
    const text = bytes === null ? null : decodeUtf8(bytes);
    if (text !== null) texts.set(key, text);
  }
  return texts;
}
