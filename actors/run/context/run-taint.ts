import type { ContextMessage } from "../../log/message.ts";

/**
 * The untrusted sources of the texts that the agents of a run have read (decision 114). They only grow: whatever a model writes after
 * reading such a text may carry it. The log stores them with each event, so a later run of the thread reads them again.
 */
export class RunTaint {
  #sources: readonly string[] = none;

  /** Sorted; empty for a run that has read no such text. */
  get sources(): readonly string[] {
    return this.#sources;
  }

  add(sources: readonly string[]): void {
    if (sources.every((source) => this.#sources.includes(source))) return;
    this.#sources = [...new Set([...this.#sources, ...sources])].sort().slice(0, sourcesMax);
  }

  /** Adds the sources of messages. */
  read(messages: readonly ContextMessage[]): void {
    for (const { taint } of messages) if (taint !== null) this.add(taint);
  }
}

/** Max sources of a run. A run with so many is tainted, and further ones are not named. */
const sourcesMax = 64;
const none: readonly string[] = [];
