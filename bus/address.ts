import type { ActorKind } from "./protocol/kinds.ts";
import type { NodeId } from "./protocol/node-id.ts";

/** To whom a message goes: one actor of one kind. Keys of tenant-owned actors begin with the tenant. */
export interface Address<K extends ActorKind = ActorKind> {
  readonly kind: K;
  readonly key: string;
}

/** An address whose kind nobody has looked at. */
export interface AnyAddress {
  readonly kind: string;
  readonly key: string;
}

/** One conversation. Neither part may hold a colon; both are checked where they enter. */
export function threadAddress(tenantId: string, suffix: string): Address<"thread"> {
  return { kind: "thread", key: `${tenantId}:${suffix}` };
}

/**
 * Whether no path could name a conversation of this suffix in one way only: what is read twice on its way is another thread after an
 * escape in it, and `/chat/sessions/search` is the search. No new one gets such an id.
 */
export function isReservedSuffix(suffix: string): boolean {
  return suffix === "search" || suffix.includes("%");
}

/** One run: of a conversation, or of its own. */
export function runAddress(tenantId: string, suffix: string | null, runId: string): Address<"run"> {
  return { kind: "run", key: suffix === null ? `${tenantId}/${runId}` : `${tenantId}:${suffix}/${runId}` };
}

/** The parts of a run's key. */
export function splitRunKey(key: string): { tenantId: string; suffix: string | null; runId: string } {
  const slash = key.lastIndexOf("/");
  const runId = key.slice(slash + 1);
  const owner = key.slice(0, slash);
  if (!owner.includes(":")) return { tenantId: owner, suffix: null, runId };
  return { ...splitThreadId(owner), runId };
}

/** Whose place an actor shares: a run lives where its conversation does. */
export function placedWith(address: AnyAddress): AnyAddress {
  if (address.kind !== "run" || !address.key.includes(":")) return address;
  return { kind: "thread", key: address.key.slice(0, address.key.lastIndexOf("/")) };
}

/** A node itself, wherever the others are. */
export function nodeAddress(node: NodeId): Address<"node"> {
  return { kind: "node", key: node };
}

/** The topic on which an actor publishes. */
export function topicOf(address: Address): string {
  return `${address.kind}/${address.key}`;
}

/** The tenant's and the client's part of a thread's full id. */
export function splitThreadId(threadId: string): { tenantId: string; suffix: string } {
  const colon = threadId.indexOf(":");
  return { tenantId: threadId.slice(0, colon), suffix: threadId.slice(colon + 1) };
}
