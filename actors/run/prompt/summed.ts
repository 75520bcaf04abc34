import type { ContextMessage } from "../../log/message.ts";

/** The head of a branch after a compaction. */
export interface Summed {
  readonly text: string;
  /** The opening message of a turn that the compaction has split; null for none. It follows the summary. */
  readonly opening: ContextMessage | null;
}
