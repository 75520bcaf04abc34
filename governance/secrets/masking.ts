import { credentialPattern } from "./credential-patterns.ts";
import type { ValueScanner } from "./value-scanner.ts";

const redacted = "[REDACTED]";
/** Deeper values are masked completely. */
const depthMax = 256;

/**
 * Replaces known secrets and well-known forms of credentials by [REDACTED]. The work is linear in the text, regardless of the
 * number of secrets.
 */
export class Masking {
  readonly #scanner: ValueScanner;
  readonly #pattern = credentialPattern();

  constructor(scanner: ValueScanner) {
    this.#scanner = scanner;
  }

  /** Returns the masked text, or the same string if nothing is masked. Matches that also occur in `own` stay unmasked. */
  text(text: string, own = ""): string {
    const places: number[] = [];
    this.#scanner.find(text, places);
    this.#pattern.lastIndex = 0;
    for (let found = this.#pattern.exec(text); found; found = this.#pattern.exec(text)) {
      places.push(found.index, found.index + found[0].length);
    }
    return places.length === 0 ? text : replaced(text, places, own);
  }

  /** Masks the strings and keys of JSON text, so that it stays valid JSON. Other text is masked as plain text. */
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

  /** Returns a JSON value with masked strings and keys, or the same value if nothing is masked. */
  value<T>(value: T): T {
    return this.#deep(value, 0) as T;
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
    // Object.fromEntries defines own properties, so a key such as __proto__ stays a key.
    return changed ? Object.fromEntries(entries) : value;
  }
}

/** Returns the text with each group of adjacent or overlapping matches replaced once. Matches that occur in `own` stay. */
function replaced(text: string, places: readonly number[], own: string): string {
  const spans: [number, number][] = [];
  for (let i = 0; i < places.length; i += 2) {
    const [start, end] = [places[i] as number, places[i + 1] as number];
    if (own === "" || !own.includes(text.slice(start, end))) spans.push([start, end]);
  }
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
