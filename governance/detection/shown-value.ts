import type { Redactor } from "./redactor.ts";

/** Nesting beyond which a value is not shown. */
const depthMax = 64;
/** Characters of all texts of a value that are shown. */
const shownMax = 16 * 1024;
const left = "[...]";

/** Redacts every text, number and key of a JSON value, up to a bound. */
export class ShownValue {
  readonly #redactor: Redactor;
  #rest = shownMax;

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** Returns the value as it may be shown. */
  of(value: unknown, depth = 0): unknown {
    if (this.#rest <= 0 || depth > depthMax) return left;
    if (typeof value === "string") return this.#text(value);
    if (typeof value === "number") {
      const text = String(value);
      const shown = this.#text(text);
      return shown === text ? value : shown;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => this.of(item, depth + 1));
    const entries = Object.entries(value).map(([key, item]) => [this.#text(key), this.of(item, depth + 1)]);
    return Object.fromEntries(entries);
  }

  #text(text: string): string {
    if (this.#rest <= 0) return left;
    const part = text.slice(0, this.#rest);
    this.#rest -= part.length + 1;
    if (part.length === text.length) return this.#redactor.redact(text).text;
    // The end of a part may be the beginning of a match, so what is held back there is left out.
    return this.#redactor.stream().take(part) + left;
  }
}
