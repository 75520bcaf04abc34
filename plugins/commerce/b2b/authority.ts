import { sumOf } from "../core/money.ts";

// Decides whether a buyer may purchase for an account. It is asked at the check, when a quote is accepted, and when it becomes an
// order; the answer of that moment holds.

/** How long after the invoice an account pays. */
export const paymentTerms = ["prepaid", "net15", "net30", "net60"] as const;
/** When an account pays. */
export type PaymentTerms = (typeof paymentTerms)[number];

/** The roles of buyers. */
export const buyerRoles = ["admin", "approver", "purchaser", "viewer"] as const;
/** The role of a buyer. */
export type BuyerRole = (typeof buyerRoles)[number];

/** The facts about an account that decide. */
export interface AuthorityAccount {
  readonly status: "active" | "suspended";
  readonly payment_terms: PaymentTerms;
  readonly credit_limit_cents: number;
}

/** The facts about a buyer that decide. */
export interface AuthorityBuyer {
  readonly role: BuyerRole;
  readonly status: "active" | "suspended";
  readonly spending_limit_cents: number;
}

/** Why a purchase is blocked or needs an approval; `allowed` if neither. */
export type AuthorityReason =
  | "allowed"
  | "account_suspended"
  | "buyer_suspended"
  | "viewer_role"
  | "over_credit_limit"
  | "over_spending_limit"
  | "source_unavailable";

/** The answer. */
export interface Authority {
  readonly decision: "allowed" | "requires_approval" | "blocked";
  readonly reason: AuthorityReason;
}

/**
 * Returns whether the buyer may purchase for this amount now. `openCents` is the sum of the account's open invoices. Credit applies to
 * net terms only. An amount above the buyer's limit needs an approval, whatever the role.
 */
export function purchaseAuthority(
  account: AuthorityAccount,
  buyer: AuthorityBuyer,
  openCents: number,
  amountCents: number,
): Authority {
  if (account.status !== "active") return blocked("account_suspended");
  if (buyer.status !== "active") return blocked("buyer_suspended");
  if (buyer.role === "viewer") return blocked("viewer_role");
  const hasCredit = account.payment_terms !== "prepaid";
  if (hasCredit && sumOf([openCents, amountCents]) > account.credit_limit_cents) return blocked("over_credit_limit");
  return amountCents > buyer.spending_limit_cents
    ? { decision: "requires_approval", reason: "over_spending_limit" }
    : { decision: "allowed", reason: "allowed" };
}

/** The answer while the source of accounts or buyers cannot be read. */
export const unavailableAuthority: Authority = { decision: "blocked", reason: "source_unavailable" };

function blocked(reason: AuthorityReason): Authority {
  return { decision: "blocked", reason };
}

const dayMs = 86_400_000;
const days: Readonly<Record<PaymentTerms, number>> = { prepaid: 0, net15: 15, net30: 30, net60: 60 };

/** Returns the time by which an invoice of these terms is paid. */
export function dueAt(terms: PaymentTerms, now: number): number {
  return now + days[terms] * dayMs;
}
