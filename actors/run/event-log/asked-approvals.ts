import type { AskedApproval } from "../../../bus/frames/output.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { approvalById } from "../../../storage/tables/approvals.ts";

/** What came of the requests for approval that a run has waited for, in the order in which it has asked. */
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
      // Others may still wait for it: for this run nobody has decided in time.
      status: status === "pending" ? "expired" : status,
    }));
}
