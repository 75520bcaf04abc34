import type { ErrorCode } from "../../../bus/errors.ts";

/** True if a refusal is temporary and independent of the run, so that the same request may succeed later. */
export function isPassing(code: ErrorCode): boolean {
  return ["storage_unavailable", "actor_lost", "deadline_exceeded", "mailbox_full"].includes(code);
}
