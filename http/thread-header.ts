import type { Reply } from "./exchange/reply.ts";

/** What no header can carry, and the sign that stands before what it is told by. */
const unprintable = /[^\x21-\x24\x26-\x7e]/gu;

/**
 * An answer that names its conversation, for clients whose protocol has no field for it. The id is told by its UTF-8 bytes with a percent
 * sign where a header cannot carry it. Without a conversation the answer stays as it is.
 */
export function namingThread<R extends Reply>(reply: R, tenantId: string, suffix: string | null): R {
  if (suffix === null) return reply;
  const id = `${tenantId}:${suffix}`.toWellFormed().replaceAll(unprintable, encodeURIComponent);
  return { ...reply, headers: { ...reply.headers, "x-svc-thread-id": id } };
}
