import { SvcError } from "../../../bus/errors.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { approvalById, claimGrantOp, type Decision } from "../../../storage/tables/approvals.ts";
import type { WaitOutcome } from "../../tools/tool.ts";

/** What was said to the question whether a call may be made. */
export function decisionOf(outcome: WaitOutcome): Decision {
  if (outcome.kind === "expired") return { decision: "denied", note: "timeout", edited_args: null };
  return outcome.value as Decision;
}

/** Whether a call may use a grant: one for a single call is its own, or nobody's yet. */
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
