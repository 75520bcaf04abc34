import {
  a2aContextOf,
  isEvalSuffix,
  isJobSuffix,
  isReservedSuffix,
  isTaskSuffix,
  isWorkflowSuffix,
  runOfOnceSuffix,
} from "../bus/address.ts";
import { SvcError } from "../bus/errors.ts";

/** 1 to 200 characters that are safe in a key, a path and a header. A colon is not allowed, so a full id with its tenant never matches. */
const suffixPattern = /^(?!\.{1,2}$)[^:#/\\\p{Cc}]{1,200}$/u;

/** The suffix of a durable run without a conversation. */
const durablePattern = /^fiber:[0-9a-f]{32}$/;

/**
 * Returns a valid suffix for routes that change the thread; threads of tasks, jobs, evaluations, workflows and A2A contexts are read-only.
 * Refuses with invalid_thread_id.
 */
export function checkThreadSuffix(suffix: string): string {
  if (isTaskSuffix(suffix) || isOfProtocol(suffix))
    throw new SvcError("invalid_thread_id", {
      message: `The threads of tasks, jobs, evaluations, workflows and A2A contexts are read only; ${suffix.slice(0, 200)} is one of them.`,
    });
  return checkReadSuffix(suffix);
}

/** Returns a valid suffix for routes that delete the thread; threads of jobs, evaluations, workflows and A2A contexts are allowed. Refuses with invalid_thread_id. */
export function checkErasedSuffix(suffix: string): string {
  return isOfProtocol(suffix) ? suffix : checkThreadSuffix(suffix);
}

/** Returns a valid suffix for routes that read the thread. Refuses with invalid_thread_id. */
export function checkReadSuffix(suffix: string): string {
  if (!isThreadSuffix(suffix) && !isOfProtocol(suffix)) throw malformed(suffix);
  return suffix;
}

/** True for the thread of a job, of an evaluation, of a step of a workflow or of an A2A context. */
function isOfProtocol(suffix: string): boolean {
  return isJobSuffix(suffix) || isEvalSuffix(suffix) || isWorkflowSuffix(suffix) || a2aContextOf(suffix) !== null;
}

function isThreadSuffix(suffix: string): boolean {
  return suffixPattern.test(suffix) && !isReservedSuffix(suffix);
}

/** Answers show the full id of a thread, and clients may send it back; the message names the part to send. */
function malformed(id: string): SvcError {
  const suffix = id.slice(id.indexOf(":") + 1);
  if (suffix === id || !isThreadSuffix(suffix)) return new SvcError("invalid_thread_id");
  return new SvcError("invalid_thread_id", {
    message: `Answers show a thread id as tenant, colon and suffix. Send only the suffix: ${suffix}.`,
  });
}

/** Returns a valid suffix; null if the thread is omitted or empty. */
export function optionalThreadSuffix(suffix: string | null | undefined): string | null {
  return suffix === null || suffix === undefined || suffix === "" ? null : checkThreadSuffix(suffix);
}

/**
 * Returns the suffix in a filter or in an answer to a run's question. Accepts the caller's own full ids, as rows and frames show them, and
 * ids of runs without a thread. Null if there is no filter.
 */
export function threadFilter(value: string | undefined, tenantId: string): string | null {
  if (value === undefined) return null;
  const own = `${tenantId}:`;
  const suffix = value.startsWith(own) ? value.slice(own.length) : value;
  return durablePattern.test(suffix) || runOfOnceSuffix(suffix) !== null ? suffix : checkReadSuffix(suffix);
}
