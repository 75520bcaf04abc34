import { credentialPattern } from "./credential-patterns.ts";
import type { ValueScanner } from "./value-scanner.ts";

const redacted = "[REDACTED]";
/** Values that nest deeper are masked whole. */
const depthMax = 256;

/**
 * Hides the texts that its scanner knows, and whatever has the form of a well-known credential, behind [REDACTED]. The work is
 * linear in the text and does not grow with the number of secrets.
 */
export class Masking {
  readonly #scanner: ValueScanner;
  readonly #pattern = credentialPattern();

  constructor(scanner: ValueScanner) {
    this.#scanner = scanner;
  }

  /** The text, or the very same string when there is nothing to hide. What also stands in `own` is left as it is. */
  text(text: string, own = ""): string {
    const places: number[] = [];
    this.#scanner.find(text, places);
    this.#pattern.lastIndex = 0;
    for (let found = this.#pattern.exec(text); found; found = this.#pattern.exec(text)) {
      places.push(found.index, found.index + found[0].length);
    }
    return places.length === 0 ? text : replaced(text, places, own);
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

/** The text with each place, or each run of places that touch, replaced once; but for places whose text is in `own`. */
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
