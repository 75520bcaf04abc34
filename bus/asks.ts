import type { Env } from "./env.ts";
import { SvcError } from "./errors.ts";
import type { NodeId } from "./protocol/node-id.ts";
import { SlotTable } from "./slot-map.ts";

/** A pending ask. It holds the request, which is sent again if the actor has moved. */
export interface PendingAsk {
  readonly kind: string;
  readonly key: string;
  readonly type: string;
  readonly body: unknown;
  readonly bytes: number;
  /** The node that was asked. */
  node: NodeId;
  /** Number of replies so far that the actor lives on another node. */
  moves: number;
  /** On the monotonic clock, so that a change of the system clock expires nothing. */
  readonly deadline: number;
  readonly resolve: (value: never) => void;
  readonly reject: (error: SvcError) => void;
  readonly onReply: (() => void) | undefined;
}

/** Interval of the search for overdue asks, and so the precision of deadlines. */
const sweepMs = 100;

/**
 * Max redirects of an ask. Nodes learn of a new placement at different times. From the second redirect on, the ask
 * waits before it is sent, twice as long each time, more than a second in total.
 */
const movesMax = 8;
const movedAgainMs = 10;

/** The pending asks of one node. */
export class PendingAsks {
  readonly #env: Env;
  readonly #send: (correlation: number, ask: PendingAsk) => void;
  readonly #asks: SlotTable<PendingAsk>;
  #sweeping = false;

  /** Correlation numbers start at `first`. `send` sends an ask to its node, or throws a refusal. */
  constructor(env: Env, first: number, send: (correlation: number, ask: PendingAsk) => void) {
    this.#env = env;
    this.#asks = new SlotTable(first);
    this.#send = send;
  }

  /** Sends an ask under a new correlation number. */
  ask(ask: PendingAsk): void {
    const correlation = this.#asks.add(ask);
    this.#sweepLater();
    this.#sendOrReject(correlation, ask);
  }

  /**
   * Sends the ask to the node `to`, unless it was redirected too often. Returns false if the ask is no longer pending.
   */
  moved(correlation: number, to: NodeId): boolean {
    const ask = this.#asks.get(correlation);
    if (!ask) return false;
    ask.node = to;
    if (++ask.moves === 1) this.#sendOrReject(correlation, ask);
    else if (ask.moves > movesMax) this.take(correlation)?.reject(new SvcError("actor_lost"));
    else
      this.#env.timer(movedAgainMs * 2 ** (ask.moves - 2), () => {
        // The ask may have expired, or failed because its node was lost.
        if (this.#asks.get(correlation) === ask) this.#sendOrReject(correlation, ask);
      });
    return true;
  }

  /** Returns the ask with this number while it is pending. */
  get(correlation: number): PendingAsk | undefined {
    return this.#asks.get(correlation);
  }

  /** Removes and returns the ask that a reply belongs to; undefined if it is no longer pending. */
  take(correlation: number): PendingAsk | undefined {
    return this.#asks.take(correlation);
  }

  /** Rejects all asks to `node` as actor_lost. */
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
