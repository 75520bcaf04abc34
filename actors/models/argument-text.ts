/**
 * The arguments of one call, which come in pieces. Nearly all providers send pieces to be joined. Some servers send
 * all that they have by then with each piece (https://github.com/NousResearch/hermes-agent/pull/35718), the whole once more at the end
 * (https://github.com/anomalyco/opencode/pull/17339), or an empty object first (https://github.com/microsoft/autogen/pull/7549).
 */
export class ArgumentText {
  /** All pieces, concatenated. */
  joined = "";
  #last = "";
  #next = "";

  /** Adds what one event has of them. */
  add(piece: string): void {
    if (piece === "") return;
    this.joined += piece;
    this.#last = this.#next;
    this.#next = piece;
  }

  /** All pieces where they make JSON together. Else the last one, if it is an object and says again what came before it. */
  whole(): string {
    const { joined } = this;
    if (this.#last === "" || !this.#next.startsWith("{") || isJson(joined) || !isJson(this.#next)) return joined;
    // Half of the arguments of an answer that was cut off may end in a piece that is an object too.
    const before = joined.slice(0, -this.#next.length);
    return this.#next.startsWith(this.#last) || isJson(before) ? this.#next : joined;
  }
}

/** True if the text is JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
