import type { TenantStore } from "../../storage/store/store.ts";
import { type NewApproval, requestOps } from "../../storage/tables/approvals.ts";

/** A request for approval without a waiting call. */
export async function openApproval(store: TenantStore, request: NewApproval): Promise<void> {
  await store.write(requestOps(store, request));
}
