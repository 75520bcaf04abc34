import type { Delivery } from "../../bus/bus.ts";
import { Mailbox } from "../../bus/mailbox.ts";
import type { SlotMember } from "../../bus/slot-map.ts";
import type { ActorContext, AnyActorDefinition } from "./define.ts";

/** An actor in the memory of its host, with what waits for it. */
export interface Cell extends SlotMember {
  readonly definition: AnyActorDefinition;
  readonly key: string;
  readonly mailbox: Mailbox<Delivery>;
  /** Made anew with every state, so that what an earlier state has left running cannot drop the present one. */
  context: ActorContext<unknown> | null;
  phase: "empty" | "loading" | "ready";
  state: unknown;
  /** A handler is running that others must wait for. */
  busy: boolean;
  /** Interleaving handlers that are waiting for something. */
  interleaved: number;
  /** It leaves memory as soon as it is idle. */
  isLeaving: boolean;
  /** On the monotonic clock. */
  lastUsed: number;
}

/** An actor that is not in memory yet. */
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
    lastUsed: 0,
  };
}

/** What an actor is called among those of all kinds. */
export function idOf({ definition, key }: Cell): string {
  return `${definition.kind}/${key}`;
}

/** Calls the handler of a message; the answer may be a promise. */
export function invoke(cell: Cell, delivery: Delivery): unknown {
  const handler = cell.definition.on[delivery.type];
  return handler?.(cell.state as never, delivery.body as never, cell.context as ActorContext<never>);
}

/** True when nobody waits for the answer any more: the asker knows that the outcome is unknown. */
export function isOverdue(delivery: Delivery, now: number): boolean {
  return delivery.deadline > 0 && delivery.deadline < now;
}

/** Whether an actor can leave memory: it is at nothing, and nothing waits for it. */
export function isIdle(cell: Cell): boolean {
  if (cell.busy || cell.interleaved > 0 || cell.mailbox.size > 0 || cell.phase === "loading") return false;
  return cell.phase === "empty" || cell.definition.idle(cell.state as never);
}
