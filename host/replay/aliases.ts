import type { RecordedEvent, Said } from "./recorded-log.ts";

/** Call ids that svc generates if it does not use the model's. They are random, and all have the same length. */
const ownId = /^call_[0-9a-f]{32}$/;

/** Maps the call ids of a replay to those of the recorded run. */
export class Aliases {
  /** Recorded id by replayed id. */
  readonly #recorded = new Map<string, string>();

  /** Returns the recorded id of a call. */
  id(id: string): string {
    return this.#recorded.get(id) ?? id;
  }

  /** Returns the text with recorded ids. */
  text(text: string): string {
    let told = text;
    for (const [now, then] of this.#recorded) told = told.replaceAll(now, then);
    return told;
  }

  /** Returns the content with recorded ids. */
  said(said: Said): Said {
    if (this.#recorded.size === 0) return said;
    return {
      ...said,
      tool_call_id: said.tool_call_id === null ? null : this.id(said.tool_call_id),
      tool_calls: said.tool_calls?.map((call) => ({ ...call, id: this.id(call.id) })) ?? null,
    };
  }

  /** Learns the ids of the calls in a message; returns the message with recorded ids. */
  learn({ tool_calls: recorded }: RecordedEvent, said: Said): Said {
    for (const [at, { id }] of (said.tool_calls ?? []).entries()) {
      const then = recorded?.[at]?.id;
      if (then !== undefined && then !== id && ownId.test(id) && ownId.test(then)) this.#recorded.set(id, then);
    }
    return this.said(said);
  }
}
