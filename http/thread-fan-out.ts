import { type Address, runAddress, splitThreadId } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { SvcError } from "../bus/errors.ts";
import { rewoundMark, turnReplayFrames } from "../bus/frames/frames.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { ThreadPosition } from "../bus/protocol/thread.ts";
import { SlotMap, type SlotMember, SlotSet } from "../bus/slot-map.ts";

// Listeners of conversations on this HTTP thread. The bus delivers the frames of a conversation here once, however many streams listen.
// Concurrent requests for its position share one ask.

/** A subscriber to the frames of a conversation. `lost` means that the actor is gone and later frames need a new subscription. */
export interface ThreadListener {
  /** `cursor` is the id of the last frame that has one. */
  frames(text: string, cursor: number | null): void;
  /** All frames received so far are part of the requested position, so drop them. */
  forget(): void;
  /** The active branch has changed: the listener must read a new snapshot. */
  rewound(): void;
  lost(): void;
}

/** The position of a conversation's log; concurrent requests share one. */
export interface Position extends Omit<ThreadPosition, "run_id"> {
  /** Frames with the live run's output since its last commit; null if no run is live. */
  readonly live: Buffer | null;
}

/** A pending request for a position. */
interface Asking extends SlotMember {
  readonly listeners: Set<ThreadListener>;
  /** The cursor of the last frame received since the thread answered. */
  heardCursor: number | null;
}

interface Topic {
  readonly address: Address<"thread">;
  readonly listeners: Set<ThreadListener>;
  readonly askings: SlotSet<Asking>;
  /** The request that further listeners may share, because the thread has not answered it yet. */
  joinable: { readonly asking: Asking; readonly position: Promise<Position> } | null;
}

/** The subscriptions of this HTTP thread, by conversation. */
export class ThreadFanOut {
  readonly #bus: Bus;
  readonly #fanOut = new SlotMap<Topic>();

  constructor(bus: Bus) {
    this.#bus = bus;
    bus.onLost((node) => this.#lost(node));
  }

  /** Subscribes a listener to all later frames. Subscribe first, then ask for the position. */
  join(address: Address<"thread">, listener: ThreadListener): void {
    let topic = this.#fanOut.get(address.key);
    if (!topic) {
      const created: Topic = { address, listeners: new Set(), askings: new SlotSet(), joinable: null };
      topic = created;
      this.#fanOut.set(address.key, created);
      this.#bus.subscribe(address, (text) => {
        if (text.includes(rewoundMark)) {
          // The snapshot contains the frames that came with this mark.
          for (const each of [...created.listeners]) each.rewound();
          return;
        }
        const cursor = lastId(text);
        if (cursor !== null) for (const asking of created.askings) asking.heardCursor = cursor;
        for (const each of created.listeners) each.frames(text, cursor);
      });
    }
    topic.listeners.add(listener);
  }

  leave(address: Address<"thread">, listener: ThreadListener): void {
    const topic = this.#fanOut.get(address.key);
    if (!topic?.listeners.delete(listener) || topic.listeners.size > 0) return;
    this.#fanOut.take(address.key);
    this.#bus.unsubscribe(address);
  }

  /**
   * Returns the position of the log and the live run's uncommitted output. Both include all frames that the listener received before, so
   * its `forget` is called; later frames continue from there. The listener must have joined.
   */
  position(address: Address<"thread">, listener: ThreadListener): Promise<Position> {
    const topic = this.#fanOut.get(address.key);
    if (!topic) return Promise.reject(new SvcError("actor_lost"));
    if (!topic.joinable) {
      const asking: Asking = { slot: -1, listeners: new Set(), heardCursor: null };
      topic.joinable = { asking, position: this.#ask(topic, asking) };
    }
    topic.joinable.asking.listeners.add(listener);
    return topic.joinable.position;
  }

  async #ask(topic: Topic, asking: Asking): Promise<Position> {
    const close = (): void => {
      if (topic.joinable?.asking === asking) topic.joinable = null;
    };
    const forget = (): void => {
      for (const listener of asking.listeners) listener.forget();
    };
    try {
      const onAttached = (): void => {
        // A listener that joins later has missed the frames since this answer.
        close();
        topic.askings.add(asking);
        forget();
      };
      const { run_id, ...position } = await this.#bus.ask(topic.address, "attach", {}, { onReply: onAttached });
      if (run_id === null) return { ...position, live: null };
      const { tenantId, suffix } = splitThreadId(topic.address.key);
      let heard: number | null = null;
      const onReply = (): void => {
        heard = asking.heardCursor;
        forget();
      };
      const { live, since_seq } = await this.#bus.ask(runAddress(tenantId, suffix, run_id), "status", {}, { onReply });
      const next_seq = Math.max(position.next_seq, heard ?? 0);
      // A live run writes to one branch only.
      const leaf_seq = next_seq > position.next_seq ? next_seq - 1 : position.leaf_seq;
      const upTo = { ...position, next_seq, leaf_seq };
      if (live === null) return { ...upTo, live: null };
      // A run sends no output while it waits for an append. If the log is ahead of the run's position, its text is committed already.
      const { text, truncated } = next_seq > since_seq ? { text: "", truncated: false } : live;
      return { ...upTo, live: Buffer.from(turnReplayFrames(text, truncated)) };
    } finally {
      close();
      topic.askings.delete(asking);
    }
  }

  /** Removes the conversations of a lost node. Their listeners ask again, and the replacement node answers. */
  #lost(node: NodeId): void {
    for (const [, topic] of [...this.#fanOut]) {
      if (this.#bus.nodeOf(topic.address) !== node) continue;
      this.#fanOut.take(topic.address.key);
      for (const listener of [...topic.listeners]) listener.lost();
    }
  }
}

/** Returns the id of the last `id:` line. Frames hold JSON, so text inside them cannot start a line. */
function lastId(frames: string): number | null {
  const at = frames.startsWith("id: ")
    ? Math.max(0, frames.lastIndexOf("\nid: ") + 1)
    : frames.lastIndexOf("\nid: ") + 1;
  return at > 0 || frames.startsWith("id: ") ? Number.parseInt(frames.slice(at + 4), 10) : null;
}
