import type { Breach, Reservation, RunBudget } from "./budget.ts";

// What a model writes is counted while it writes, without knowing how it makes tokens of text: as four characters a token, and as one
// token for each piece that the provider sends, whichever is more. Pieces are a bound that holds: a token may be long, but it is not
// sent in parts.

/** Characters of a token, by the rule of thumb that money is set aside by too. */
const tokenCharacters = 4;
/** A provider that was told a bound ends by itself: only tokens of twice that length show that it does not. */
const toldTokenCharacters = 8;

/** Counts what one model call has written against what is set aside for it, and says when it has to end. */
export class OutputCount {
  /** The limit that ended the call; null while it may go on. */
  breach: Breach | null = null;
  readonly #budget: RunBudget;
  readonly #reserved: Reservation;
  readonly #told: number;
  #characters = 0;
  #pieces = 0;
  #charactersMax = 0;
  #piecesMax = 0;

  /** `told` is the bound that the provider was told; null when it was told none. */
  constructor(budget: RunBudget, reserved: Reservation, told: number | null) {
    this.#budget = budget;
    this.#reserved = reserved;
    this.#told = told ?? 0;
    this.#bound();
  }

  /** Whether nothing has been written. */
  get isEmpty(): boolean {
    return this.#pieces === 0;
  }

  /** Tokens that were written, by estimate. */
  get tokens(): number {
    const estimate = Math.max(this.#pieces, estimatedTokens(this.#characters));
    if (this.breach !== null) return Math.min(estimate, this.#reserved.outputTokens);
    const keptTo = this.#pieces <= this.#told && this.#characters <= this.#told * toldTokenCharacters;
    return keptTo ? Math.min(estimate, this.#told) : estimate;
  }

  /**
   * Counts characters that came in so many pieces, and answers how many of them the call may still use. Where that is not all, the
   * call is over: `breach` says why, and nothing more is counted.
   */
  take(characters: number, pieces: number): number {
    if (this.breach !== null) return 0;
    this.#characters += characters;
    this.#pieces += pieces;
    return this.#isWithin ? characters : this.#takeBeyond(characters, pieces);
  }

  /** Counts the whole of an answer whose parts were not all told of. */
  complete(characters: number): void {
    this.#characters = Math.max(this.#characters, characters);
  }

  get #isWithin(): boolean {
    return this.#characters <= this.#charactersMax && this.#pieces <= this.#piecesMax;
  }

  #takeBeyond(characters: number, pieces: number): number {
    do {
      this.breach = this.#budget.extend(this.#reserved);
      if (this.breach === null) this.#bound();
    } while (this.breach === null && !this.#isWithin);
    if (this.breach === null) return characters;
    const piecesBeyond = Math.max(0, this.#pieces - this.#piecesMax);
    const beyond = Math.max(this.#characters - this.#charactersMax, Math.ceil((characters * piecesBeyond) / pieces));
    const kept = Math.max(0, characters - beyond);
    this.#characters -= characters - kept;
    this.#pieces -= piecesBeyond;
    return kept;
  }

  #bound(): void {
    const { outputTokens } = this.#reserved;
    this.#piecesMax = outputTokens;
    this.#charactersMax = Math.max(
      outputTokens * tokenCharacters,
      Math.min(this.#told, outputTokens) * toldTokenCharacters,
    );
  }
}

/** Tokens of a text of so many characters, by the rule of thumb; what a provider reports goes before it. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / tokenCharacters);
}
