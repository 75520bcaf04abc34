import { createHash, createHmac } from "node:crypto";
import type { Settings } from "./settings/settings.ts";

/** A key of the audit chain. */
export interface AuditKey {
  /** Names the key in seals without revealing it. */
  readonly id: string;
  /** Returns the keyed hash of a text, in base64url. */
  hash(text: string): string;
}

/** The keys of the audit chain. The first one signs; the others only verify older seals. */
export class AuditKeys {
  readonly signing: AuditKey;
  readonly #byId: ReadonlyMap<string, AuditKey>;

  /** Takes at least one key. */
  constructor(texts: readonly string[]) {
    const keys = texts.map(auditKey);
    const [first] = keys;
    if (first === undefined) throw new Error("the audit chain needs a key");
    this.signing = first;
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  /** Returns the key with an id; undefined for an unknown one. */
  get(id: string): AuditKey | undefined {
    return this.#byId.get(id);
  }
}

function auditKey(text: string): AuditKey {
  const id = createHash("sha256").update(`svc audit key ${text}`).digest("hex").slice(0, 16);
  return { id, hash: (words) => createHmac("sha256", text).update(words).digest("base64url") };
}

/** Returns the keys of the settings. Throws without any: a server that has none makes one when it starts. */
export function auditKeysOf({ auditKey }: Pick<Settings, "auditKey">): AuditKeys {
  return new AuditKeys(auditKey);
}
