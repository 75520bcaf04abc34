import { isJobSuffix, isReservedSuffix, isTaskSuffix } from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";

/** 1 to 200 characters that are safe in a key, a path and a header; never the full id of a tenant. */
const suffixPattern = /^(?!\.{1,2}$)[^:#/\\\p{Cc}]{1,200}$/u;

/** Of a durable run without a conversation. */
const durablePattern = /^fiber:[0-9a-f]{32}$/;

/** The client's part of a thread's id, for what changes the thread: those of tasks and jobs are read only. Refuses with invalid_thread_id. */
export function checkThreadSuffix(suffix: string): string {
  if (isTaskSuffix(suffix) || isJobSuffix(suffix))
    throw new SvcError("invalid_thread_id", {
      message: `The threads of tasks and jobs are read only; ${suffix.slice(0, 200)} is one of them.`,
    });
  return checkReadSuffix(suffix);
}

/** The same for what deletes it: conversations of jobs too. */
export function checkErasedSuffix(suffix: string): string {
  return isJobSuffix(suffix) ? suffix : checkThreadSuffix(suffix);
}

/** The same for what reads it. */
export function checkReadSuffix(suffix: string): string {
  if (!suffixPattern.test(suffix) && !isJobSuffix(suffix)) throw malformed(suffix);
  return suffix;
}

/** Answers have the whole id of a thread, and clients send it back as it is: the sentence says which part to send. */
function malformed(id: string): SvcError {
  const suffix = id.slice(id.indexOf(":") + 1);
  if (suffix === id || !suffixPattern.test(suffix)) return new SvcError("invalid_thread_id");
  return new SvcError("invalid_thread_id", {
    message: `Answers show a thread id as tenant, colon and suffix. Send only the suffix: ${suffix}.`,
  });
}

/**
 * The same for a thread that is to be made: no path could name one whose id has an escape in it, or is that of the search, in one way
 * only (decision 36).
 */
export function checkNewThreadSuffix(suffix: string): string {
  if (isReservedSuffix(suffix)) throw new SvcError("invalid_thread_id");
  return checkThreadSuffix(suffix);
}

/** The same where a thread may be left out: null or an empty text is none. */
export function optionalThreadSuffix(suffix: string | null | undefined): string | null {
  return suffix === null || suffix === undefined || suffix === "" ? null : checkThreadSuffix(suffix);
}

/**
 * The suffix in a filter, or in an answer to what a run asks, which may be the caller's own full id as rows and frames give it, also
 * that of a durable run without a conversation; null where nothing is filtered.
 */
export function threadFilter(value: string | undefined, tenantId: string): string | null {
  if (value === undefined) return null;
  const own = `${tenantId}:`;
  const suffix = value.startsWith(own) ? value.slice(own.length) : value;
  return durablePattern.test(suffix) ? suffix : checkReadSuffix(suffix);
}
