import type { NodeId } from "./node-id.ts";

/** Names the receiving end of a channel, in a message. */
export interface ChannelRef {
  readonly node: NodeId;
  readonly id: number;
}

/** The sending end of a channel. */
export interface Channel {
  /** False while the receiver's node is behind; hold text back until `onWritable`. */
  readonly writable: boolean;
  onWritable(work: () => void): void;
  /** After `last` nothing more may be sent. */
  send(text: string, last: boolean): void;
}
