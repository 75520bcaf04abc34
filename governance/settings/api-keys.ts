import { hashToken, isToken } from "./key-token.ts";
import { readMap, readObject, readString, readStrings } from "./object-shape.ts";
import { readTenantId } from "./tenant-id.ts";

/** The principal of one API key. Only the hash of the key is stored. */
export interface ApiKey {
  readonly sha256: string;
  /** Position in the setting, from 1; names the entry in messages, because the key must not be printed. */
  readonly entry: number;
  /** Number of characters of the key. */
  readonly length: number;
  readonly tenant_id: string;
  readonly sub: string;
  readonly scopes: readonly string[];
}

/** Reads SVC_AUTH_API_KEYS: a map of key to {tenant_id, sub, scopes}. */
export function readApiKeys(document: unknown): readonly ApiKey[] {
  return Object.entries(readMap(document, "the value")).map(([token, value], index) => {
    const where = `entry ${index + 1}`;
    if (!isToken(token)) {
      throw new Error(`${where}: a key is visible ASCII without quotes, commas, backslashes, brackets and braces`);
    }
    const entry = readObject(value, where, ["tenant_id", "sub", "scopes"]);
    const tenantId = readTenant(entry.tenant_id, where);
    const sub = readString(entry.sub, `${where}: sub`);
    if (!isSubject(sub)) throw new Error(`${where}: sub has 1 to 256 characters and no control characters`);
    const scopes = readStrings(entry.scopes, `${where}: scopes`);
    if (!scopes.every(isScope)) throw new Error(`${where}: a scope is visible ASCII without commas and quotes`);
    return { sha256: hashToken(token), entry: index + 1, length: token.length, tenant_id: tenantId, sub, scopes };
  });
}

function readTenant(value: unknown, where: string): string {
  try {
    return readTenantId(readString(value, "tenant_id"));
  } catch (error) {
    throw new Error(`${where}: ${(error as Error).message}`);
  }
}

/** True if the text is a valid subject. */
export function isSubject(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  return text !== "" && text.length <= 256 && !/[\x00-\x1f\x7f]/.test(text) && text.isWellFormed();
}

/** True if the text is a valid scope: visible ASCII without quotes, commas and backslashes. */
export function isScope(text: string): boolean {
  return /^[\x21\x23-\x26\x28-\x2b\x2d-\x5b\x5d-\x7e]{1,128}$/.test(text);
}
