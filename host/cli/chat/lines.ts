import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";
import type { Talk } from "../command.ts";

/** Larger than any request that a server accepts. */
const wholeCharactersMax = 64 * 1024 * 1024;

/** Reads lines from a terminal or a pipe. */
export class Lines {
  readonly #talk: Talk;
  readonly #interface: Interface;
  /** Lines that arrived before `next` was called. */
  readonly #early: string[] = [];
  #take: ((line: string | null) => void) | null = null;
  #isOver = false;
  readonly isTyped: boolean;

  constructor(talk: Talk, onInterrupt: () => void) {
    this.#talk = talk;
    this.isTyped = talk.input.isTTY === true && talk.notesTerminal() !== null;
    this.#interface = createInterface({ input: talk.input, output: this.#screen(), terminal: this.isTyped });
    this.#interface.on("line", (line) => {
      if (this.#take === null) this.#early.push(line);
      else this.#answer(line);
    });
    this.#interface.on("close", () => {
      this.#isOver = true;
      this.#answer(null);
    });
    // In raw mode the terminal sends no signal.
    this.#interface.on("SIGINT", onInterrupt);
  }

  /** Returns the next line; null at the end of the input, or if `stop` aborts the read. */
  async next(prompt: string, stop?: AbortSignal): Promise<string | null> {
    const early = this.#early.shift();
    if (early !== undefined) return early;
    if (this.#isOver || stop?.aborted) return null;
    const { promise, resolve } = Promise.withResolvers<string | null>();
    this.#take = resolve;
    const given = (): void => this.#answer(null);
    stop?.addEventListener("abort", given, { once: true });
    if (this.isTyped) {
      this.#interface.setPrompt(prompt);
      this.#interface.prompt();
    }
    try {
      return await promise;
    } finally {
      stop?.removeEventListener("abort", given);
    }
  }

  /** Drops lines typed before a question was shown, because they cannot be its answer. */
  forgetTyped(): void {
    if (this.isTyped) this.#early.length = 0;
  }

  close(): void {
    this.#interface.close();
  }

  #answer(line: string | null): void {
    const take = this.#take;
    // End the line that the prompt started.
    if (take !== null && line === null && this.isTyped) this.#talk.notes.write("\n");
    this.#take = null;
    take?.(line);
  }

  /** Echoes input only while a line is read, so that it does not mix with other output. */
  #screen(): Writable {
    const { notes, notesTerminal } = this.#talk;
    const screen = new Writable({
      write: (chunk, _encoding, done) => {
        if (this.#take !== null && this.isTyped) notes.write(chunk);
        done();
      },
    });
    return Object.defineProperty(screen, "columns", { get: () => notesTerminal()?.columns ?? 80 });
  }
}

/** Reads the complete input. Rejects if it is larger than any message. */
export async function wholeInput({ input }: Talk): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of input) {
    text += typeof piece === "string" ? piece : decoder.decode(piece as Buffer, { stream: true });
    if (text.length > wholeCharactersMax) throw new Error("the input is longer than a message may be");
  }
  return text.trim();
}
