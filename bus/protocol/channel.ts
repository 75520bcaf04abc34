import type { NodeId } from "./node-id.ts";

/** Reference to the receiving end of a channel, for messages. */
export interface ChannelRef {
  readonly node: NodeId;
  readonly id: number;
}

/** The sending end of a channel. */
export interface Channel {
  /** False while the receiver's node is behind; buffer text until `onWritable`. */
  readonly writable: boolean;
  onWritable(work: () => void): void;
  /** After `last`, nothing more may be sent. */
  send(text: string, last: boolean): void;
}
