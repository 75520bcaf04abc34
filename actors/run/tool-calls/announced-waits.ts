import { deliveryAddress } from "../../../bus/address.ts";
import { principalId } from "../../../bus/protocol/principal.ts";
import { sendsPush } from "../../../governance/push/configured.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { announceApprovalOp, announcements, announceQuestionOp } from "../../../storage/tables/push-outbox.ts";
import type { NewWait } from "../../../storage/tables/waits.ts";
import type { RunContext } from "../context/run-context.ts";

/**
 * Returns statements that announce a wait to subscribed browsers, for the end of the batch that opens it. `requestId` is the approval
 * request that this wait makes, null for none: a wait that shares a request announces nothing.
 */
export function announceOps({ deps, spec, store }: RunContext, row: NewWait, requestId: string | null): WriteOp[] {
  if (!sendsPush(deps.settings)) return [];
  if (requestId !== null) return [announceApprovalOp(store, requestId)];
  const thread_id = row.frame?.data.thread_id;
  // A question without a thread ends with its stream, so a notification would come too late.
  if (row.kind !== "question" || row.suffix === "" || typeof thread_id !== "string") return [];
  const principal = principalId(spec.principal);
  return [announceQuestionOp(store, { kind: "question", wait_id: row.wait_id, thread_id, principal })];
}

/** Hints at announcements that were written. A periodic check covers lost hints. */
export function hintAnnounced({ deps, spec }: RunContext, written: readonly WriteOp[]): void {
  if (written.length > 0) deps.bus.tell(deliveryAddress(spec.principal.tenant_id, announcements), "wake", {});
}
