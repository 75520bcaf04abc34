import { SvcError } from "../../../bus/errors.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { approvalById, claimGrantOp, type Decision } from "../../../storage/tables/approvals.ts";
import type { WaitOutcome } from "../../tools/tool.ts";

/** Returns the decision of an approval wait. An expired wait is denied. */
export function decisionOf(outcome: WaitOutcome): Decision {
  if (outcome.kind === "expired") return { decision: "denied", note: "timeout", edited_args: null };
  return outcome.value as Decision;
}

/** True if a call may use an approval grant. A one-shot grant belongs to the first call that claims it. */
export async function claimGrant(store: TenantStore, id: string, call: string): Promise<boolean> {
  const row = await approvalById(store, id);
  if (row === undefined || row.one_shot === 0) return row !== undefined;
  try {
    await store.write([claimGrantOp(store, id, call)]);
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
