import { behindMax, type Detector, reachMax } from "./detector.ts";

/** A redacted text. */
export interface Redaction {
  readonly text: string;
  /** Number of matches by kind; empty if the text is unchanged. */
  readonly found: Readonly<Record<string, number>>;
}

/** Replaces the matches of detectors. At each position the first detector with a match counts. */
export class Redactor {
  /** The detectors by the first character of a match; the last entry is for all characters outside of ASCII. */
  readonly #byFirst: readonly (readonly Detector[])[];
  readonly #others: readonly Detector[];

  constructor(detectors: readonly Detector[]) {
    this.#others = detectors;
    this.#byFirst = Array.from({ length: asciiMax }, (_, code) => detectors.filter((detector) => detector.first(code)));
  }

  /** Redacts a complete text. */
  redact(text: string): Redaction {
    const stream = this.stream();
    const shown = stream.take(text) + stream.end();
    return { text: shown, found: stream.found };
  }

  /** Redacts a text that arrives in pieces. */
  stream(): RedactingStream {
    return new RedactingStream(this);
  }

  /** Returns the detectors of matches that may begin at `at`. */
  at(text: string, at: number): readonly Detector[] {
    const code = text.charCodeAt(at);
    if (code < asciiMax) return this.#byFirst[code] as readonly Detector[];
    // A match begins with a whole character.
    return isLow(code) && isHigh(text.charCodeAt(at - 1)) ? none : this.#others.filter((one) => one.first(code));
  }
}

/** Redacts a text in pieces. The result is the same for every division into pieces. */
export class RedactingStream {
  readonly #redactor: Redactor;
  readonly #found: Record<string, number> = {};
  /** Text that is not decided yet, from `#at` on, with the text before it. */
  #text = "";
  #at = 0;
  /** The first half of a character whose second half has not arrived. */
  #half = "";

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** Number of matches so far, by kind. */
  get found(): Readonly<Record<string, number>> {
    return this.#found;
  }

  /** Number of characters that are held back. */
  get held(): number {
    return this.#text.length - this.#at + this.#half.length;
  }

  /** Returns the text that is decided now, possibly none. */
  take(piece: string): string {
    const from = Math.max(0, this.#at - behindMax - 1);
    const whole = this.#half + piece;
    const end = isHigh(whole.charCodeAt(whole.length - 1)) ? whole.length - 1 : whole.length;
    this.#half = whole.slice(end);
    this.#text = this.#text.slice(from) + whole.slice(0, end);
    this.#at -= from;
    return this.#decide(false);
  }

  /** Returns the rest at the end of the text. */
  end(): string {
    this.#text += this.#half;
    this.#half = "";
    return this.#decide(true);
  }

  #decide(isLast: boolean): string {
    const text = this.#text;
    const { length } = text;
    let shown = "";
    let from = this.#at;
    let at = from;
    while (at < length) {
      const step = this.#step(at, isLast);
      if (step === held) break;
      if (step === null) at++;
      else {
        shown += `${text.slice(from, at)}<${step.kind}>`;
        this.#found[step.kind] = (this.#found[step.kind] ?? 0) + 1;
        at = step.end;
        from = at;
      }
    }
    this.#at = at;
    return shown + text.slice(from, at);
  }

  /** Returns the match at a position, null for none, or `held` if later text decides. */
  #step(at: number, isLast: boolean): { readonly kind: string; readonly end: number } | null | typeof held {
    const text = this.#text;
    const isNear = !isLast && text.length - at < reachMax;
    for (const detector of this.#redactor.at(text, at)) {
      if (isNear && (detector.mayBegin?.(text, at) ?? true)) return held;
      const end = detector.match(text, at);
      if (end > at && !isInCharacter(text, end)) return { kind: detector.kind, end };
    }
    return null;
  }
}

const asciiMax = 128;
const held = "held";
const none: readonly Detector[] = [];

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLow(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}

function isInCharacter(text: string, at: number): boolean {
  return isLow(text.charCodeAt(at)) && isHigh(text.charCodeAt(at - 1));
}
