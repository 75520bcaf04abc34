import type { Breach, Reservation, RunBudget } from "./budget.ts";

// Estimates output tokens while a model writes, without its tokenizer: the larger of characters / 4 and the number of pieces
// that the provider sent. The pieces are a lower bound, because a provider never splits a token.

/** Characters per token; budget reservations use the same estimate. */
const tokenCharacters = 4;
/**
 * Allowance for a provider that received an output bound and enforces it: only tokens of twice the usual length show that it
 * does not.
 */
const toldTokenCharacters = 8;

/** Counts the output of one model call against its reservation, and decides when the call must end. */
export class OutputCount {
  /** The limit that ended the call; null while it may continue. */
  breach: Breach | null = null;
  readonly #budget: RunBudget;
  readonly #reserved: Reservation;
  readonly #told: number;
  #characters = 0;
  #pieces = 0;
  #charactersMax = 0;
  #piecesMax = 0;

  /** `told` is the output bound in the provider's request; null for none. */
  constructor(budget: RunBudget, reserved: Reservation, told: number | null) {
    this.#budget = budget;
    this.#reserved = reserved;
    this.#told = told ?? 0;
    this.#bound();
  }

  /** True if the model has written nothing. */
  get isEmpty(): boolean {
    return this.#pieces === 0;
  }

  /** Estimated output tokens. */
  get tokens(): number {
    const estimate = Math.max(this.#pieces, estimatedTokens(this.#characters));
    if (this.breach !== null) return Math.min(estimate, this.#reserved.outputTokens);
    const keptTo = this.#pieces <= this.#told && this.#characters <= this.#told * toldTokenCharacters;
    return keptTo ? Math.min(estimate, this.#told) : estimate;
  }

  /**
   * Counts characters that arrived in a number of pieces. Returns how many of the characters are within the limit. If not all
   * are, `breach` is set, the call is over and nothing more is counted.
   */
  take(characters: number, pieces: number): number {
    if (this.breach !== null) return 0;
    this.#characters += characters;
    this.#pieces += pieces;
    return this.#isWithin ? characters : this.#takeBeyond(characters, pieces);
  }

  /** Counts the complete output of a call whose parts were not all counted. */
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

/** Estimates the tokens of a text. Usage that a provider reports takes precedence. */
export function estimatedTokens(characters: number): number {
  return Math.ceil(characters / tokenCharacters);
}
