import type { Address } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";
import type { ChannelRef } from "../bus/protocol/channel.ts";
import type { NodeId } from "../bus/protocol/node-id.ts";
import type { HttpContext, LiveTurn } from "./context.ts";

/** The result that an actor sends over a channel when its long work ends, while its handler stays free for other messages. */
export class LaterAnswer implements LiveTurn {
  slot = -1;
  readonly channel: ChannelRef;
  /** The whole answer. Rejects with actor_lost when the actor's node is lost, and with shutting_down. */
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
    // No reader may be attached yet; avoid an unhandled rejection.
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

  /** Closes the channel. */
  close(): void {
    this.#context.turns.delete(this);
    this.#context.bus.closeChannel(this.channel);
  }
}
