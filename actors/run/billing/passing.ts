import type { SvcError } from "../../../bus/errors.ts";

/** True if a refusal is temporary and independent of the run, so that the same request may succeed later. */
export function isPassing(code: SvcError["code"]): boolean {
  return ["storage_unavailable", "actor_lost", "deadline_exceeded", "mailbox_full"].includes(code);
}

/** True if a request was refused because a queue or memory was full. Nothing was done then, and no step has failed. */
export function isOverload(code: SvcError["code"]): boolean {
  return code === "mailbox_full";
}
