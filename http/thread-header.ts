import { SvcError } from "../bus/errors.ts";
import type { Reply } from "./exchange/reply.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import { optionalThreadSuffix } from "./thread-id.ts";

/** The header that names the thread, in requests by its suffix and in answers by its full id. */
const threadHeader = "x-svc-thread-id";

/** What no header can carry, and the sign that stands before what it is told by. */
const unprintable = /[^\x21-\x24\x26-\x7e]/gu;

/**
 * An answer that names its conversation, for clients whose protocol has no field for it. The id is told by its UTF-8 bytes with a percent
 * sign where a header cannot carry it. Without a conversation the answer stays as it is.
 */
export function namingThread<R extends Reply>(reply: R, tenantId: string, suffix: string | null): R {
  // A request that was sent again is answered from the thread of the first one.
  if (suffix === null || reply.headers?.[threadHeader] !== undefined) return reply;
  const id = `${tenantId}:${suffix}`.toWellFormed().replaceAll(unprintable, encodeURIComponent);
  return { ...reply, headers: { ...reply.headers, [threadHeader]: id } };
}

/**
 * The thread's suffix in a request of a protocol without a field for it, with percent signs as an answer has them; undefined without the
 * header. Refuses with invalid_thread_id.
 */
export function namedThread({ headers }: Pick<RequestHead, "headers">): string | undefined {
  const value = headers[threadHeader] ?? "";
  if (value === "") return undefined;
  try {
    return optionalThreadSuffix(decodeURIComponent(value)) ?? undefined;
  } catch {
    throw new SvcError("invalid_thread_id", { subject: "X-Svc-Thread-Id" });
  }
}
