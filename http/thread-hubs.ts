import type { Address } from "../bus/address.ts";
import type { Bus } from "../bus/bus.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";

// Listeners to conversations on this http thread. However many streams listen to one conversation, the bus brings its frames
// here once, and they are handed to each.

/** Takes frames of a conversation; `lost` says that its actor is gone and that what follows must be asked for again. */
export interface ThreadListener {
  /** `cursor` is the id of the last of the frames that has one. */
  frames(text: string, cursor: number | null): void;
  lost(): void;
}

interface Hub {
  readonly address: Address<"thread">;
  readonly listeners: Set<ThreadListener>;
}

/** Who on this http thread listens to which conversation. */
export class ThreadHubs {
  readonly #bus: Bus;
  readonly #hubs = new Map<string, Hub>();

  constructor(bus: Bus) {
    this.#bus = bus;
    bus.onLost((node) => this.#lost(node));
  }

  /** Hands a listener everything that is published from now on. Subscribe first, then ask the thread where it stands. */
  join(address: Address<"thread">, listener: ThreadListener): void {
    let hub = this.#hubs.get(address.key);
    if (!hub) {
      const created: Hub = { address, listeners: new Set() };
      hub = created;
      this.#hubs.set(address.key, created);
      this.#bus.subscribe(address, (text) => {
        const cursor = lastId(text);
        for (const each of created.listeners) each.frames(text, cursor);
      });
    }
    hub.listeners.add(listener);
  }

  leave(address: Address<"thread">, listener: ThreadListener): void {
    const hub = this.#hubs.get(address.key);
    if (!hub?.listeners.delete(listener) || hub.listeners.size > 0) return;
    this.#hubs.delete(address.key);
    this.#bus.unsubscribe(address);
  }

  /** The node that held some of the conversations is gone: its listeners ask again, and then its successor answers. */
  #lost(node: NodeId): void {
    for (const hub of [...this.#hubs.values()]) {
      if (this.#bus.nodeOf(hub.address) !== node) continue;
      this.#hubs.delete(hub.address.key);
      for (const listener of [...hub.listeners]) listener.lost();
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
