import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { ActorKind, Body, MessageType, Reply } from "../../bus/protocol/kinds.ts";

/** The services of a handler, in addition to its state. */
export interface ActorContext<Deps> {
  readonly key: string;
  readonly env: Env;
  readonly bus: Bus;
  readonly deps: Deps;
  /** Drops the state; the next message loads it again from the store. */
  discard(): void;
  /** Makes the actor leave memory as soon as it is idle, because its state will not be needed again. */
  leave(): void;
  /** Reports an unexpected failure of background work, with the effect of a throw in a handler. */
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
 * An actor kind: how its state is loaded, its mailbox limit, and a handler for each message. Messages are handled one at a time,
 * except interleaving ones, which may run while a handler awaits. Handlers await only the store and the bus, never a model or
 * tool, and check their state again after each await.
 */
export interface ActorDefinition<K extends ActorKind, State, Deps> {
  readonly kind: K;
  readonly mailboxLimit: number;
  readonly interleaves: readonly MessageType<K>[];
  /** Messages accepted beyond the mailbox limit, because they end work. */
  readonly reserved: readonly MessageType<K>[];
  /** The state leaves memory after this long without a message, if `idle` allows it. */
  readonly passivateAfterMs: number;
  /** True for a kind with many actors that are cheap to load: when very many are in memory, an idle one leaves at once. */
  readonly leavesCrowds?: true;
  load(context: ActorContext<Deps>): State | Promise<State>;
  /** False while the actor owns work outside its mailbox. */
  idle(state: State): boolean;
  /** Called before the state is dropped after a crash, to end the work that it owns. */
  crashed(state: State, context: ActorContext<Deps>, error: unknown): void;
  readonly on: Handlers<K, State, Deps>;
}

/** Returns the definition, with its types inferred. */
export function defineActor<K extends ActorKind, State, Deps>(
  definition: ActorDefinition<K, State, Deps>,
): ActorDefinition<K, State, Deps> {
  return definition;
}

/** A definition with its types erased, for the host. */
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
