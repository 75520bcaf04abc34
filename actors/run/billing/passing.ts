import type { ErrorCode } from "../../../bus/errors.ts";

/** Whether a refusal says nothing of the run: who asks for it again might not meet it. */
export function isPassing(code: ErrorCode): boolean {
  return ["storage_unavailable", "actor_lost", "deadline_exceeded", "mailbox_full"].includes(code);
}
