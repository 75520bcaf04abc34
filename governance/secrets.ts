import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { SvcError } from "../bus/errors.ts";
import { credentialPattern } from "./secrets/credential-patterns.ts";
import { ValueScanner } from "./secrets/value-scanner.ts";
import type { Settings } from "./settings.ts";

const reference = "secret:";
/** Longer files are no secrets. */
const fileBytesMax = 64 * 1024;

/** Looks up what `secret:NAME` stands for. */
export class Secrets {
  readonly #settings: Settings;
  readonly #mask: SecretMask;

  /** What is looked up in files is masked from then on; the rest is masked from the start. */
  constructor(settings: Settings, mask: SecretMask) {
    this.#settings = settings;
    this.#mask = mask;
  }

  /** The secret that `text` refers to, or `text` itself when it is no reference. Refuses with unresolved_secret. */
  async resolve(text: string): Promise<string> {
    if (!text.startsWith(reference)) return text;
    const name = text.slice(reference.length);
    const value = isSecretName(name) ? await this.#lookUp(name) : undefined;
    if (value === undefined || value === "") throw new SvcError("unresolved_secret", { subject: name });
    return value;
  }

  async #lookUp(name: string): Promise<string | undefined> {
    const { secretsBackend, secrets, secretsDir } = this.#settings;
    if (secretsBackend === "env") return Object.hasOwn(secrets, name) ? secrets[name] : undefined;
    const value = await readSecretFile(join(secretsDir, name));
    if (value) this.#mask.add(value);
    return value;
  }
}

/** Whether a text may name a secret: one segment of a path, and most of what an environment variable may be called. */
function isSecretName(name: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(name);
}

/** The file without the line break that editors put at its end; undefined when there is none or it is not an ordinary file. */
async function readSecretFile(path: string): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    // Opening a named pipe would otherwise wait for its writer.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stat = await file.stat();
    if (!stat.isFile() || stat.size > fileBytesMax) return undefined;
    return (await file.readFile("utf8")).replace(/\r?\n$/, "");
  } catch {
    return undefined;
  } finally {
    await file?.close();
  }
}

const redacted = "[REDACTED]";
/** Values that nest deeper are masked whole. */
const depthMax = 256;

/**
 * Hides known secrets of at least eight characters, and whatever has the form of a well-known credential, behind [REDACTED]. The
 * work is linear in the text and does not grow with the number of secrets.
 */
export class SecretMask {
  readonly #values = new Set<string>();
  #scanner = new ValueScanner([]);
  readonly #pattern = credentialPattern();

  constructor(values: Iterable<string>) {
    for (const value of values) this.#learn(value);
    this.#scanner = new ValueScanner(this.#values);
  }

  /** Hides one more text from now on. */
  add(value: string): void {
    if (this.#values.has(value)) return;
    this.#learn(value);
    this.#scanner = new ValueScanner(this.#values);
  }

  /** The text, or the very same string when there is nothing to hide. */
  text(text: string): string {
    const places: number[] = [];
    this.#scanner.find(text, places);
    this.#pattern.lastIndex = 0;
    for (let found = this.#pattern.exec(text); found; found = this.#pattern.exec(text)) {
      places.push(found.index, found.index + found[0].length);
    }
    return places.length === 0 ? text : replaced(text, places);
  }

  /** JSON text that stays JSON: what is hidden is cut out of its strings and keys, never out of an escape. Other text as text. */
  jsonText(json: string): string {
    const masked = this.text(json);
    if (masked === json) return json;
    let value: unknown;
    try {
      value = JSON.parse(json);
    } catch {
      return masked;
    }
    return JSON.stringify(this.value(value));
  }

  /** A JSON value with its strings and keys masked, or the very same value when there is nothing to hide. */
  value<T>(value: T): T {
    return this.#deep(value, 0) as T;
  }

  /** A secret, and the ways in which it is spelled inside JSON text and URLs. */
  #learn(value: string): void {
    this.#values.add(value);
    this.#values.add(value.trim());
    this.#values.add(JSON.stringify(value).slice(1, -1));
    if (value.isWellFormed()) this.#values.add(encodeURIComponent(value));
  }

  #deep(value: unknown, depth: number): unknown {
    if (typeof value === "string") return this.text(value);
    if (typeof value !== "object" || value === null) return value;
    if (depth >= depthMax) return redacted;
    if (Array.isArray(value)) {
      const items = value.map((item) => this.#deep(item, depth + 1));
      return items.every((item, index) => item === value[index]) ? value : items;
    }
    let changed = false;
    const entries = Object.entries(value).map(([key, item]): [string, unknown] => {
      const entry: [string, unknown] = [this.text(key), this.#deep(item, depth + 1)];
      changed ||= entry[0] !== key || entry[1] !== item;
      return entry;
    });
    // fromEntries defines properties, so that a key such as __proto__ stays a key.
    return changed ? Object.fromEntries(entries) : value;
  }
}

/** The text with each place, or each run of places that touch, replaced once. */
function replaced(text: string, places: readonly number[]): string {
  const spans: [number, number][] = [];
  for (let i = 0; i < places.length; i += 2) spans.push([places[i] as number, places[i + 1] as number]);
  spans.sort((left, right) => left[0] - right[0]);
  let result = "";
  let copied = 0;
  let hidden = -1;
  for (const [start, end] of spans) {
    if (start > hidden) result += text.slice(copied, start) + redacted;
    hidden = Math.max(hidden, end);
    copied = hidden;
  }
  return result + text.slice(copied);
}
