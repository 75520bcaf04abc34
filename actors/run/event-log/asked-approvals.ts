import type { AskedApproval } from "../../../bus/frames/output.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { approvalById } from "../../../storage/tables/approvals.ts";

/** Returns the approval requests that a run has waited for, with their status, in the order of asking. */
export async function askedApprovals(store: TenantStore, ids: ReadonlySet<string>): Promise<AskedApproval[]> {
  const rows = await Promise.all([...ids].map((id) => approvalById(store, id)));
  return rows
    .filter((row) => row !== undefined)
    .map(({ id, tool_name, args, rule_id, reason, thread_id, tool_call_id, ttl_seconds, deadline, status }) => ({
      approval_id: id,
      tool_name,
      args: JSON.parse(args) as unknown,
      rule_id,
      reason,
      thread_id,
      tool_call_id,
      expires_at: ttl_seconds === null ? null : deadline,
      // Another call may still wait for the request. For this run it has expired.
      status: status === "pending" ? "expired" : status,
    }));
}
