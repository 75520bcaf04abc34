import type { RecordedEvent, Said } from "./recorded-log.ts";

/** Ids that a run gives its calls, where it takes none of the model's. They are new each time, and of one length. */
const ownId = /^call_[0-9a-f]{32}$/;

/** Which call of a run that is made again is which call on record. */
export class Aliases {
  /** The id on record by the id of now. */
  readonly #recorded = new Map<string, string>();

  /** The id on record of a call. */
  id(id: string): string {
    return this.#recorded.get(id) ?? id;
  }

  /** A text with the ids that are on record. */
  text(text: string): string {
    let told = text;
    for (const [now, then] of this.#recorded) told = told.replaceAll(now, then);
    return told;
  }

  /** What is said, with the ids that are on record. */
  said(said: Said): Said {
    if (this.#recorded.size === 0) return said;
    return {
      ...said,
      tool_call_id: said.tool_call_id === null ? null : this.id(said.tool_call_id),
      tool_calls: said.tool_calls?.map((call) => ({ ...call, id: this.id(call.id) })) ?? null,
    };
  }

  /** Learns the ids of the calls that a message asks for, and answers it with those on record. */
  learn({ tool_calls: recorded }: RecordedEvent, said: Said): Said {
    for (const [at, { id }] of (said.tool_calls ?? []).entries()) {
      const then = recorded?.[at]?.id;
      if (then !== undefined && then !== id && ownId.test(id) && ownId.test(then)) this.#recorded.set(id, then);
    }
    return this.said(said);
  }
}
