import type { Delivery } from "../../bus/bus.ts";
import { Mailbox } from "../../bus/mailbox.ts";
import type { SlotMember } from "../../bus/slot-map.ts";
import type { ActorContext, AnyActorDefinition } from "./define.ts";

/** An actor in the memory of its host, with its mailbox. */
export interface Cell extends SlotMember {
  readonly definition: AnyActorDefinition;
  readonly key: string;
  readonly mailbox: Mailbox<Delivery>;
  /** Created with every state, so that leftover work of an earlier state cannot drop the current one. */
  context: ActorContext<unknown> | null;
  phase: "empty" | "loading" | "ready";
  state: unknown;
  /** True while an exclusive handler is running. */
  busy: boolean;
  /** Number of interleaving handlers in progress. */
  interleaved: number;
  /** True if the actor leaves memory as soon as it is idle. */
  isLeaving: boolean;
  /** True while it works here although it is placed on another node, which the bus knows. */
  stays: boolean;
  /** On the monotonic clock. */
  lastUsed: number;
}

/** Returns the cell of an actor that is not loaded yet. */
export function newCell(definition: AnyActorDefinition, key: string): Cell {
  return {
    slot: -1,
    definition,
    key,
    mailbox: new Mailbox(definition.mailboxLimit),
    context: null,
    phase: "empty",
    state: undefined,
    busy: false,
    interleaved: 0,
    isLeaving: false,
    stays: false,
    lastUsed: 0,
  };
}

/** Returns the id of an actor, unique across kinds. */
export function idOf({ definition, key }: Cell): string {
  return `${definition.kind}/${key}`;
}

/** Calls the handler of a message; the result may be a promise. */
export function invoke(cell: Cell, delivery: Delivery): unknown {
  const handler = cell.definition.on[delivery.type];
  return handler?.(cell.state as never, delivery.body as never, cell.context as ActorContext<never>);
}

/** True if the deadline has passed, so that the sender already treats the outcome as unknown. */
export function isOverdue(delivery: Delivery, now: number): boolean {
  return delivery.deadline > 0 && delivery.deadline < now;
}

/** True if the actor can leave memory: no handler is running and no message is queued. */
export function isIdle(cell: Cell): boolean {
  if (cell.mailbox.size > 0 || cell.phase === "loading") return false;
  return cell.phase === "empty" || !isAtWork(cell);
}

/** True if a loaded actor handles a message or owns work. */
export function isAtWork(cell: Cell): boolean {
  return cell.busy || cell.interleaved > 0 || !cell.definition.idle(cell.state as never);
}
