import type { Address } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import type { ChannelRef } from "../bus/protocol/channel.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { HttpContext, LiveTurn } from "./context.ts";

/** What an actor sends over a channel when it has come to an end with something that keeps it from nothing else. */
export class LaterAnswer implements LiveTurn {
  slot = -1;
  readonly channel: ChannelRef;
  /** All of it. Refuses with actor_lost when the actor's node is gone, and with shutting_down. */
  readonly text: Promise<string>;
  readonly #context: HttpContext;
  readonly #node: NodeId;
  readonly #reject: (error: SvcError) => void;

  constructor(context: HttpContext, from: Address) {
    this.#context = context;
    this.#node = context.bus.nodeOf(from);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.text = promise;
    this.#reject = reject;
    // Nobody may be waiting for it yet.
    promise.catch(() => {});
    let text = "";
    this.channel = context.bus.openChannel((piece, last) => {
      text += piece;
      if (last) resolve(text);
    });
    context.turns.add(this);
  }

  lost(node: NodeId): void {
    if (node === this.#node) this.fail(new SvcError("actor_lost"));
  }

  fail(error: SvcError): void {
    this.#reject(error);
    this.close();
  }

  /** Nobody waits any more. */
  close(): void {
    this.#context.turns.delete(this);
    this.#context.bus.closeChannel(this.channel);
  }
}
