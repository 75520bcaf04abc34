/**
 * The arguments of one call, received in pieces. Most providers send pieces to concatenate. Some servers send all text so far
 * with each piece (https://github.com/NousResearch/hermes-agent/pull/35718), the whole again at the end
 * (https://github.com/anomalyco/opencode/pull/17339), or an empty object first (https://github.com/microsoft/autogen/pull/7549).
 */
export class ArgumentText {
  /** All pieces, concatenated. */
  joined = "";
  #last = "";
  #next = "";

  /** Adds the piece of one event. */
  add(piece: string): void {
    if (piece === "") return;
    this.joined += piece;
    this.#last = this.#next;
    this.#next = piece;
  }

  /**
   * Returns the concatenation if it is JSON. Otherwise returns the last piece, if that is an object that repeats the earlier
   * text.
   */
  whole(): string {
    const { joined } = this;
    if (this.#last === "" || !this.#next.startsWith("{") || isJson(joined) || !isJson(this.#next)) return joined;
    // In a reply that was cut off, the last piece may be an object too, so also check the text before it.
    const before = joined.slice(0, -this.#next.length);
    return this.#next.startsWith(this.#last) || isJson(before) ? this.#next : joined;
  }
}

/** True if the text is valid JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
