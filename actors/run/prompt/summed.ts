import type { ContextMessage } from "../../log/message.ts";

/** What the branch of a run begins with since it was compacted. */
export interface Summed {
  readonly text: string;
  /** The message behind it that has opened a turn that is cut through; null for none. */
  readonly opening: ContextMessage | null;
}
