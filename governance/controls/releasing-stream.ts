import type { ReplyStream } from "./control.ts";
import type { ControlName } from "./order.ts";
import type { Spoken } from "./verdicts.ts";

/** Passes one output of the model through the streams of several controls. */
export class ReleasingStream {
  readonly #streams: readonly (readonly [ControlName, ReplyStream])[];
  #released = "";

  constructor(streams: readonly (readonly [ControlName, ReplyStream])[]) {
    this.#streams = streams;
  }

  /** All text that was released. */
  get released(): string {
    return this.#released;
  }

  /** Returns the text that is released now, possibly none. */
  take(piece: string): string {
    const shown = this.#streams.reduce((text, [, stream]) => (text === "" ? "" : stream.take(text)), piece);
    this.#released += shown;
    return shown;
  }

  /** Returns the rest at the end of the output. */
  end(): string {
    const rest = this.#streams.reduce((text, [, stream]) => (text === "" ? "" : stream.take(text)) + stream.end(), "");
    this.#released += rest;
    return rest;
  }

  /** Returns the verdict of each control on the output. Called once, after `end`. */
  verdicts(): Spoken[] {
    return this.#streams.map(([control, stream]) => {
      const rule = stream.changed();
      return rule === null ? { control, verdict: "pass" } : { control, verdict: "replace", rule, ms: 0 };
    });
  }
}
