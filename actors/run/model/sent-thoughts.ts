/** A thought as it was told, for the log. */
export interface SentThought {
  readonly type: "thinking";
  readonly thinking: string;
  /** Behind how much of the text it was told. Absent before all of it. */
  readonly at?: { readonly text: number; readonly calls: number };
}

/** Between the thoughts of a try that was lost and those of the next. */
const parting = "\n\n";

/**
 * What was told of a model's thoughts, and where among its words. What was told is not taken back: a try that was lost while the model
 * thought has its part of it, so that the log has what clients have read.
 */
export class SentThoughts {
  readonly #thoughts: (SentThought & { thinking: string })[] = [];
  #textLength = 0;
  /** Those of tries that were lost. */
  #lost = "";
  #isParted = true;

  /** Another try begins: none is made behind the first word of the text. */
  begin(): void {
    this.#lost = this.#thoughts[0]?.thinking ?? "";
    this.#isParted = this.#lost === "";
  }

  /** What is to be told of a thought. */
  think(thought: string): string {
    const told = this.#isParted ? thought : parting + thought;
    this.#isParted = true;
    const last = this.#thoughts.at(-1);
    const text = this.#textLength;
    if (last !== undefined && (last.at?.text ?? 0) === text) last.thinking += told;
    else this.#thoughts.push({ type: "thinking", thinking: told, ...(text > 0 && { at: { text, calls: 0 } }) });
    return told;
  }

  say(text: string): void {
    this.#textLength += text.length;
  }

  /** All that was told. */
  get all(): readonly SentThought[] {
    return this.#thoughts;
  }

  /** Published thoughts of lost tries, with the separator before the thoughts that follow. */
  get lost(): readonly SentThought[] {
    if (this.#lost === "") return [];
    return [{ type: "thinking", thinking: this.#isParted ? this.#lost + parting : this.#lost }];
  }
}
