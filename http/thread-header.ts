import { SvcError } from "../bus/errors.ts";
import type { Reply } from "./exchange/reply.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import { optionalThreadSuffix } from "./thread-id.ts";

/** Names the thread: by its suffix in requests, and by its full id in answers. */
const threadHeader = "x-svc-thread-id";

/** Characters that the header escapes: those that are invalid in a header, and the percent sign. */
const unprintable = /[^\x21-\x24\x26-\x7e]/gu;

/**
 * Adds the header that names the conversation, for protocols without a field for it. Invalid characters are percent-encoded as UTF-8.
 * Returns the reply unchanged without a conversation.
 */
export function namingThread<R extends Reply>(reply: R, tenantId: string, suffix: string | null): R {
  // The answer to a repeated request already names the thread of the first request.
  if (suffix === null || reply.headers?.[threadHeader] !== undefined) return reply;
  const id = `${tenantId}:${suffix}`.toWellFormed().replaceAll(unprintable, encodeURIComponent);
  return { ...reply, headers: { ...reply.headers, [threadHeader]: id } };
}

/** Returns the thread's suffix in the request header, percent-decoded; undefined without the header. Refuses with invalid_thread_id. */
export function namedThread({ headers }: Pick<RequestHead, "headers">): string | undefined {
  const value = headers[threadHeader] ?? "";
  if (value === "") return undefined;
  try {
    return optionalThreadSuffix(decodeURIComponent(value)) ?? undefined;
  } catch {
    throw new SvcError("invalid_thread_id", { subject: "X-Svc-Thread-Id" });
  }
}
