import { type Address, runAddress, splitThreadId } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import { SvcError } from "../bus/errors.ts";
import { rewoundMark, turnReplayFrames } from "../bus/frames/frames.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { ThreadPosition } from "../bus/protocol/thread.ts";
import { SlotMap, type SlotMember, SlotSet } from "../bus/slot-map.ts";

// Listeners to conversations on this http thread. However many streams listen to one conversation, the bus brings its frames
// here once, and they are handed to each; and where it stands is asked once for all who ask at the same time.

/** Takes frames of a conversation; `lost` says that its actor is gone and that what follows must be asked for again. */
export interface ThreadListener {
  /** `cursor` is the id of the last of the frames that has one. */
  frames(text: string, cursor: number | null): void;
  /** All that was heard so far is part of the position that was asked for. */
  forget(): void;
  /** The active branch is another one: what follows is the snapshot of it. */
  rewound(): void;
  lost(): void;
}

/** Where a conversation stands; the same one for all who have asked together. */
export interface Position extends Omit<ThreadPosition, "run_id"> {
  /** Frames with what the live run has said since its last commit; null when no run is live. */
  readonly live: Buffer | null;
}

/** A position that is being asked for. */
interface Asking extends SlotMember {
  readonly listeners: Set<ThreadListener>;
  /** Of the last frame that was heard since the thread has answered. */
  heardCursor: number | null;
}

interface Topic {
  readonly address: Address<"thread">;
  readonly listeners: Set<ThreadListener>;
  readonly askings: SlotSet<Asking>;
  /** The one that listeners may still join: the thread has not answered yet. */
  joinable: { readonly asking: Asking; readonly position: Promise<Position> } | null;
}

/** Who on this http thread listens to which conversation. */
export class ThreadFanOut {
  readonly #bus: Bus;
  readonly #fanOut = new SlotMap<Topic>();

  constructor(bus: Bus) {
    this.#bus = bus;
    bus.onLost((node) => this.#lost(node));
  }

  /** Hands a listener everything that is published from now on. Subscribe first, then ask the thread where it stands. */
  join(address: Address<"thread">, listener: ThreadListener): void {
    let topic = this.#fanOut.get(address.key);
    if (!topic) {
      const created: Topic = { address, listeners: new Set(), askings: new SlotSet(), joinable: null };
      topic = created;
      this.#fanOut.set(address.key, created);
      this.#bus.subscribe(address, (text) => {
        if (text.includes(rewoundMark)) {
          // What came with it is in the snapshot.
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
   * Where the log stands and what the live run has said since. What the listener has heard before is in one of both, and it is told
   * to forget it; what it hears from then on comes after it. Only for one that has joined.
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
        // Who joins later has not heard what was said since.
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
      // What is written while a run is live is one branch.
      const leaf_seq = next_seq > position.next_seq ? next_seq - 1 : position.leaf_seq;
      const upTo = { ...position, next_seq, leaf_seq };
      if (live === null) return { ...upTo, live: null };
      // A run says nothing while it waits for an append: its text is in the log when the log has gone on without its knowing.
      const { text, truncated } = next_seq > since_seq ? { text: "", truncated: false } : live;
      return { ...upTo, live: Buffer.from(turnReplayFrames(text, truncated)) };
    } finally {
      close();
      topic.askings.delete(asking);
    }
  }

  /** The node that held some of the conversations is gone: its listeners ask again, and then its successor answers. */
  #lost(node: NodeId): void {
    for (const [, topic] of [...this.#fanOut]) {
      if (this.#bus.nodeOf(topic.address) !== node) continue;
      this.#fanOut.take(topic.address.key);
      for (const listener of [...topic.listeners]) listener.lost();
    }
  }
}

/** The last `id:` line. Frames hold JSON, so no text in them can begin a line. */
function lastId(frames: string): number | null {
  const at = frames.startsWith("id: ")
    ? Math.max(0, frames.lastIndexOf("\nid: ") + 1)
    : frames.lastIndexOf("\nid: ") + 1;
  return at > 0 || frames.startsWith("id: ") ? Number.parseInt(frames.slice(at + 4), 10) : null;
}
