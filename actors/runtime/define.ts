import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { ActorKind, Body, MessageType, Reply } from "../../bus/protocol/kinds.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import type { ThreadLoan } from "./borrowed-threads.ts";

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
  /** The other actors of this node. */
  readonly neighbours: Neighbours;
}

/** The actors in the memory of a node. */
export interface Neighbours {
  /** True if this node has the actor in memory. */
  holds(kind: string, key: string): boolean;
  /** Takes a thread from its home to this node until its run has ended. Returns false if it is in use there. */
  borrow(loan: ThreadLoan): Promise<boolean>;
  /** The run of a borrowed thread has been taken, or cannot be taken. */
  settled(thread: string): void;
  /** Lets an idle thread go to another node. Returns the subscribers of the thread; null if it is in use. */
  lend(loan: ThreadLoan, to: NodeId): readonly NodeId[] | null;
  /** A lent thread has returned to this node. */
  returned(thread: string): void;
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
 * tool, and check their state again after each await. Detached ones may also wait for other systems.
 */
export interface ActorDefinition<K extends ActorKind, State, Deps> {
  readonly kind: K;
  readonly mailboxLimit: number;
  readonly interleaves: readonly MessageType<K>[];
  /** Messages whose handlers wait for other systems: they never keep another message waiting. Absent for none. */
  readonly detached?: readonly MessageType<K>[];
  /** Messages accepted beyond the mailbox limit, because they end work. */
  readonly reserved: readonly MessageType<K>[];
  /** The state leaves memory after this long without a message, if `idle` allows it. */
  readonly passivateAfterMs: number;
  /** True for a kind with many actors that are cheap to load: when very many are in memory, an idle one leaves at once. */
  readonly leavesCrowds?: true;
  /** `type` is the message that the actor is loaded for. Throws LivesElsewhere if another node has it. */
  load(context: ActorContext<Deps>, type: string): State | Promise<State>;
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
  readonly detached?: readonly string[];
  readonly reserved: readonly string[];
  readonly passivateAfterMs: number;
  readonly leavesCrowds?: true;
  load(context: ActorContext<never>, type: string): unknown;
  idle(state: never): boolean;
  crashed(state: never, context: ActorContext<never>, error: unknown): void;
  readonly on: Readonly<Record<string, (state: never, body: never, context: ActorContext<never>) => unknown>>;
}
