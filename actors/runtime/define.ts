import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { ActorKind, Body, MessageType, Reply } from "../../bus/protocol/kinds.ts";

/** What a handler may use beside its state. */
export interface ActorContext<Deps> {
  readonly key: string;
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: Deps;
  /** Drops the state: the next message loads it again from what is stored. */
  discard(): void;
  /** Leaves memory as soon as it is idle: nobody will ask for what it still knows. */
  leave(): void;
  /** For work that the actor owns and that has failed in a way nobody foresaw: like a throw in a handler. */
  crash(error: unknown): void;
}

type Handlers<K extends ActorKind, State, Deps> = {
  [T in MessageType<K>]: (
    state: State,
    body: Body<K, T>,
    context: ActorContext<Deps>,
  ) => Reply<K, T> extends never ? void | Promise<void> : Reply<K, T> | Promise<Reply<K, T>>;
};

/**
 * An actor kind: how its state is loaded, how much may wait for it, and a handler for each of its messages. One message is
 * handled at a time, except those that interleave, which run while a handler waits for the store. Handlers wait for the store
 * and the bus only, never for a model or a tool, and look at their state again after each wait.
 */
export interface ActorDefinition<K extends ActorKind, State, Deps> {
  readonly kind: K;
  readonly mailboxLimit: number;
  readonly interleaves: readonly MessageType<K>[];
  /** Messages that are taken beyond the mailbox limit: what ends work must get in. */
  readonly reserved: readonly MessageType<K>[];
  /** The state drops out of memory after this long without a message, when `idle` allows. */
  readonly passivateAfterMs: number;
  /** One of many, and soon loaded again: while very many actors are in memory it leaves as soon as it is idle. */
  readonly leavesCrowds?: true;
  load(context: ActorContext<Deps>): State | Promise<State>;
  /** False while the actor owns work that is not in its mailbox. */
  idle(state: State): boolean;
  /** The state is about to be dropped after a crash: end what it owns. */
  crashed(state: State, context: ActorContext<Deps>, error: unknown): void;
  readonly on: Handlers<K, State, Deps>;
}

/** An actor kind as a value; see `ActorDefinition`. */
export function defineActor<K extends ActorKind, State, Deps>(
  definition: ActorDefinition<K, State, Deps>,
): ActorDefinition<K, State, Deps> {
  return definition;
}

/** A definition whose kind, state and dependencies the host need not know. */
export interface AnyActorDefinition {
  readonly kind: string;
  readonly mailboxLimit: number;
  readonly interleaves: readonly string[];
  readonly reserved: readonly string[];
  readonly passivateAfterMs: number;
  readonly leavesCrowds?: true;
  load(context: ActorContext<never>): unknown;
  idle(state: never): boolean;
  crashed(state: never, context: ActorContext<never>, error: unknown): void;
  readonly on: Readonly<Record<string, (state: never, body: never, context: ActorContext<never>) => unknown>>;
}
