import type { Env } from "./env.ts";
import { SvcError } from "./errors.ts";
import type { NodeId } from "./protocol/node-id.ts";
import { SlotTable } from "./slot-map.ts";

/** An ask that waits for its answer. It holds what was asked, for the actor may have moved. */
export interface PendingAsk {
  readonly kind: string;
  readonly key: string;
  readonly type: string;
  readonly body: unknown;
  readonly bytes: number;
  /** Where the answer comes from. */
  node: NodeId;
  /** How often the answer was that the actor lives elsewhere. */
  moves: number;
  /** On the monotonic clock: who sets the machine's clock ends nothing that is under way. */
  readonly deadline: number;
  readonly resolve: (value: never) => void;
  readonly reject: (error: SvcError) => void;
  readonly onReply: (() => void) | undefined;
}

/** How often overdue asks are looked for: a deadline is kept to within this. */
const sweepMs = 100;

/**
 * So often an ask is asked again of the place that it is sent on to. Who lives where is known to all, but not to all at once: from the
 * second time on it waits before it goes on, twice as long each time, which makes more than a second.
 */
const movesMax = 8;
const movedAgainMs = 10;

/** What one node has asked and waits for. */
export class PendingAsks {
  readonly #env: Env;
  readonly #send: (correlation: number, ask: PendingAsk) => void;
  readonly #asks: SlotTable<PendingAsk>;
  #sweeping = false;

  /** No ask has a number below `first`; `send` asks the node of an ask, or throws a refusal. */
  constructor(env: Env, first: number, send: (correlation: number, ask: PendingAsk) => void) {
    this.#env = env;
    this.#asks = new SlotTable(first);
    this.#send = send;
  }

  /** Asks, and waits for the answer under a number of its own. */
  ask(ask: PendingAsk): void {
    const correlation = this.#asks.add(ask);
    this.#sweepLater();
    this.#sendOrReject(correlation, ask);
  }

  /** The actor lives on `to`: asks it there, unless it was sent on too often. False when nobody waits for the answer. */
  moved(correlation: number, to: NodeId): boolean {
    const ask = this.#asks.get(correlation);
    if (!ask) return false;
    ask.node = to;
    if (++ask.moves === 1) this.#sendOrReject(correlation, ask);
    else if (ask.moves > movesMax) this.take(correlation)?.reject(new SvcError("actor_lost"));
    else
      this.#env.timer(movedAgainMs * 2 ** (ask.moves - 2), () => {
        // Its deadline may be over, or the node that it waits to ask be lost.
        if (this.#asks.get(correlation) === ask) this.#sendOrReject(correlation, ask);
      });
    return true;
  }

  /** The ask that an answer belongs to, which waits no more; undefined when nobody waits for it. */
  take(correlation: number): PendingAsk | undefined {
    return this.#asks.take(correlation);
  }

  /** Nothing that was asked of `node` is answered any more. */
  lost(node: NodeId, cause: Error | null): void {
    const options = cause === null ? undefined : { cause };
    this.#reject(
      (ask) => ask.node === node,
      () => new SvcError("actor_lost", {}, options),
    );
  }

  #sendOrReject(correlation: number, ask: PendingAsk): void {
    try {
      this.#send(correlation, ask);
    } catch (error) {
      this.#asks.take(correlation);
      ask.reject(SvcError.from(error));
    }
  }

  #reject(isOver: (ask: PendingAsk) => boolean, why: () => SvcError): void {
    for (const [correlation, ask] of this.#asks.entries()) {
      if (!isOver(ask)) continue;
      this.#asks.take(correlation);
      ask.reject(why());
    }
  }

  #sweepLater(): void {
    if (this.#sweeping) return;
    this.#sweeping = true;
    this.#env.timer(sweepMs, this.#sweep);
  }

  #sweep = (): void => {
    this.#sweeping = false;
    const now = this.#env.monotonic();
    this.#reject(
      (ask) => ask.deadline <= now,
      () => new SvcError("deadline_exceeded"),
    );
    if (this.#asks.size > 0) this.#sweepLater();
  };
}
