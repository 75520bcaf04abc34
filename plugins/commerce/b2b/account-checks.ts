import { SvcError } from "../../../bus/errors.ts";
import { auditOp } from "../../../governance/audit.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import { isCurrency } from "../core/money.ts";
import type { SourceDeps } from "../sources/entity-source.ts";
import { findAccount } from "./account-source.ts";
import type { AccountRow } from "./accounts.ts";
import { accountAudit } from "./b2b-audit.ts";
import { accountNotFound } from "./b2b-codes.ts";

// Checks and audit rows that the routes of accounts and of their prices share.

/** Returns an account, native or of another system. Refuses with account_not_found. */
export async function knownAccount(deps: SourceDeps, id: string): Promise<AccountRow> {
  const found = await findAccount(deps, id);
  if (found === undefined) throw new SvcError(accountNotFound);
  return found.account;
}

/** Returns the audit row of a change. */
export function changed(deps: SourceDeps, sub: string, what: string, id: string, change: object = {}): WriteOp {
  return auditOp(deps.store, deps, {
    event_type: accountAudit,
    status: "ok",
    manifest_id: "",
    principal_subj: sub,
    payload: { what, id, change },
  });
}

/** Returns a code of a currency. Refuses one that is unknown or has not two decimals. */
export function knownCurrency(code: string): string {
  if (!isCurrency(code)) throw invalid("currency", "currency must have two decimals");
  return code;
}

/** Returns the refusal of a field of the body. */
export function invalid(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type: "value_error" }] });
}
