import type { ActorKind } from "./protocol/kinds.ts";

/** To whom a message goes: one actor of one kind. Keys of tenant-owned actors begin with the tenant. */
export interface Address<K extends ActorKind = ActorKind> {
  readonly kind: K;
  readonly key: string;
}

/** One conversation. Neither part may hold a colon; both are checked where they enter. */
export function threadAddress(tenantId: string, suffix: string): Address<"thread"> {
  return { kind: "thread", key: `${tenantId}:${suffix}` };
}

/** A node itself, wherever the others are. */
export function nodeAddress(node: number): Address<"node"> {
  return { kind: "node", key: String(node) };
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
