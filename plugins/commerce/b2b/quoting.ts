import { createHash } from "node:crypto";
import { SvcError } from "../../../bus/errors.ts";
import { type Principal, principalId, responsibleId } from "../../../bus/protocol/principal.ts";
import { auditOp } from "../../../governance/audit.ts";
import { requestMs, type WriteOp } from "../../../storage/store/store.ts";
import {
  type ApprovalRow,
  approvalById,
  askApprovalOp,
  claimGrantOp,
  consumeGrantOp,
  lapseApprovals,
  liveGrant,
  pendingApproval,
  requestOps,
} from "../../../storage/tables/approvals.ts";
import { productsById } from "../catalog/products.ts";
import { centsMax, lineTotal, totalsOf } from "../core/money.ts";
import { accountPrice, rulesOf, sellingProblem } from "../pricing/price-lookup.ts";
import { sourceUnavailable } from "../sources/entity-codes.ts";
import { effectiveSource, type SourceDeps } from "../sources/entity-source.ts";
import { findAccount, findBuyer, findQuote, refuseForeign } from "./account-source.ts";
import { type AccountRow, type BuyerRow, chargeOps, holdAccountOp, holdBuyerOp, openCents } from "./accounts.ts";
import { type Authority, dueAt, purchaseAuthority, unavailableAuthority } from "./authority.ts";
import { purchaseCheckAudit, quoteAudit } from "./b2b-audit.ts";
import {
  accountNotFound,
  accountOrBuyerMissing,
  accountOrBuyerNotFound,
  buyerNotFound,
  buyerNotInAccount,
  invalidQuoteState,
  pricingFailed,
  purchaseNotAuthorized,
  quoteExpired,
  quoteNotReady,
} from "./b2b-codes.ts";
import { billingOps, providerOf } from "./billing.ts";
import { orderOfQuoteOps, taxBpsOf } from "./quote-order.ts";
import { isOver } from "./quote-states.ts";
import {
  type InvoiceRow,
  insertInvoiceOp,
  insertQuoteOp,
  moveQuoteOp,
  type QuoteItem,
  type QuoteRow,
  quoteById,
} from "./quotes.ts";

// The life of a quote: it is made and priced, sent, accepted by a buyer, and becomes an order with an invoice. The buyer's authority is
// asked at each acceptance and at the order.

/** Who acts, and in which conversation. */
export interface Acting {
  readonly principal: Principal;
  /** Empty for a request. */
  readonly manifest: string;
  readonly thread: string;
}

const dayMs = 86_400_000;
/** Max life of a request for approval. */
const approvalMsMax = 7 * dayMs;
const toolName = "b2b_purchase";
const ruleId = "purchase-authority";

/** The answer to whether a buyer may purchase. */
export interface CheckedPurchase extends Authority {
  readonly approval_id?: string;
}

/** Returns whether a buyer may purchase for an amount now. With `asks`, it makes a request for approval if one is needed. */
export async function checkPurchase(
  deps: SourceDeps,
  acting: Acting,
  asked: { account_id: string; buyer_id: string; amount_cents: number; note: string; asks: boolean },
): Promise<CheckedPurchase> {
  const { store } = deps;
  const { account_id, buyer_id, amount_cents } = asked;
  const parties = await partiesOf(deps, account_id, buyer_id).catch((error: unknown) => {
    if (SvcError.from(error).code === sourceUnavailable.code) return "unavailable" as const;
    throw error;
  });
  if (parties !== "unavailable") {
    if (parties.account === undefined) throw new SvcError(accountNotFound);
    if (parties.buyer?.account_id !== account_id) throw new SvcError(buyerNotFound);
  }
  const authority =
    parties === "unavailable" ? unavailableAuthority : await authorityOf(deps, parties as Parties, amount_cents);
  if (authority.decision !== "requires_approval" || !asked.asks) {
    await store.write([auditedCheck(deps, acting, asked, authority, null)], requestMs);
    return authority;
  }
  const key = {
    manifest_id: acting.manifest,
    tool_name: toolName,
    call_signature: signature(["purchase", account_id, buyer_id, String(amount_cents)]),
  };
  const granted = await liveGrant(store, key, principalId(acting.principal));
  if (granted !== undefined) {
    const allowed = { decision: "allowed", reason: "allowed" } as const;
    await store.write([auditedCheck(deps, acting, asked, allowed, granted.id)], requestMs);
    return { ...allowed, approval_id: granted.id };
  }
  const args = { account_id, buyer_id, amount_cents, ...(asked.note !== "" && { note: asked.note }) };
  const request = newRequest(deps, acting, args, key.call_signature);
  await store.write([...requestOps(store, { ...request, lastsMs: approvalMsMax })], requestMs);
  const pending = (await pendingApproval(store, key)) ?? request;
  await store.write([auditedCheck(deps, acting, asked, authority, pending.id)], requestMs);
  return { ...authority, approval_id: pending.id };
}

/** A line as it is asked for. */
export interface AskedLine {
  readonly product_id: string;
  readonly qty: number;
  readonly unit_price_cents?: number | undefined;
  readonly discount_cents?: number | undefined;
}

/** Makes a quote with the prices of now. Refuses with account_or_buyer_not_found, buyer_not_in_account and pricing_failed. */
export async function makeQuote(
  deps: SourceDeps,
  acting: Acting,
  {
    account_id,
    buyer_id,
    items,
    notes,
  }: { account_id: string; buyer_id: string; items: readonly AskedLine[]; notes: string },
): Promise<QuoteRow> {
  const { store, env } = deps;
  await refuseForeign(deps, "quote");
  const { account, buyer } = await partiesOf(deps, account_id, buyer_id);
  if (account === undefined || buyer === undefined) throw new SvcError(accountOrBuyerNotFound);
  if (buyer.account_id !== account.id) throw new SvcError(buyerNotInAccount);
  const now = env.now();
  const lines = await pricedLines(deps, account, items, now);
  const totals = totalsOf(
    lines.map(({ qty, unit_price_cents, discount_cents }) => ({ quantity: qty, unit_price_cents, discount_cents })),
    { tax_bps: taxBpsOf(deps.settings) },
  );
  if (totals === null) throw new SvcError(pricingFailed, { detail: [`the total exceeds ${centsMax} cents`] });
  const { subtotal_cents, discount_cents, tax_cents, total_cents } = totals;
  const quote: QuoteRow = {
    ...{ id: `q_${env.id()}`, ts: now, account_id, buyer_id, status: "draft", currency: account.currency },
    ...{ subtotal_cents, discount_cents, tax_cents, total_cents, valid_until: null, approval_id: null },
    ...{
      order_id: null,
      invoice_id: null,
      notes,
      items: lines,
      thread_id: acting.thread,
      manifest_id: acting.manifest,
    },
    ...{ updated_at: now, version: 1 },
  };
  await store.write([insertQuoteOp(store, quote)], requestMs);
  return quote;
}

async function pricedLines(
  { store }: SourceDeps,
  account: AccountRow,
  items: readonly AskedLine[],
  now: number,
): Promise<QuoteItem[]> {
  const found = await productsById(store, [...new Set(items.map(({ product_id }) => product_id))]);
  const rules = await rulesOf(store);
  const problems: string[] = [];
  const lines: QuoteItem[] = [];
  for (const { product_id, qty, unit_price_cents: overrideCents = null, discount_cents = 0 } of items) {
    const product = found.get(product_id);
    const problem = sellingProblem(product, product_id, qty);
    if (product === undefined || problem !== null) {
      problems.push(problem ?? product_id);
      continue;
    }
    if (product.currency !== account.currency) {
      problems.push(`${product_id}: its price is in ${product.currency}, and the account has ${account.currency}`);
      continue;
    }
    const { unit_price_cents, source } = await accountPrice(store, account, product, qty, {
      rules,
      now,
      overrideCents,
    });
    lines.push({
      ...{ product_id, title: product.title, qty, unit_price_cents, price_source: source, discount_cents },
      line_total_cents: lineTotal({ unit_price_cents, quantity: qty, discount_cents }),
    });
  }
  if (problems.length > 0) throw new SvcError(pricingFailed, { detail: problems.slice(0, 100) });
  return lines;
}

/** Returns a quote from where the tenant keeps quotes; a native one is in the state of now. Undefined without one. */
export async function presentQuote(deps: SourceDeps, id: string): Promise<QuoteRow | undefined> {
  const { mode } = await effectiveSource(deps, "quote");
  return mode === "native" ? currentQuote(deps, id) : findQuote(deps, id);
}

/** Returns a quote in the state of now: without a live request for approval it is sent again, after its time it is expired. */
async function currentQuote({ store, env }: SourceDeps, id: string): Promise<QuoteRow | undefined> {
  for (let tries = 0; ; tries++) {
    const quote = await quoteById(store, id);
    if (quote === undefined) return undefined;
    const now = env.now();
    const next = await settledState({ store, env }, quote, now);
    if (next === null) return quote;
    try {
      await store.write([moveQuoteOp(store, quote, next, { approval_id: null }, now)], requestMs);
    } catch (error) {
      // Another request moved it first.
      if (SvcError.from(error).code !== "conflict" || tries >= triesMax) throw error;
    }
  }
}

const triesMax = 3;

/** Returns the state to which time or a decision moves a quote; null if it stays. */
async function settledState(
  { store, env }: Pick<SourceDeps, "store" | "env">,
  quote: QuoteRow,
  now: number,
): Promise<"sent" | "expired" | null> {
  if (quote.status === "pending_approval") {
    const request = await currentApproval({ store, env }, quote.approval_id ?? "");
    if (request === undefined || request.status === "denied" || request.status === "expired" || isStale(request, now))
      return "sent";
  }
  return isOver(quote, now) ? "expired" : null;
}

/** True if an approval is too old to use: it lasts as long as its request did. */
function isStale({ status, decided_at, deadline, ts }: ApprovalRow, now: number): boolean {
  return status === "approved" && decided_at !== null && decided_at + (deadline - ts) <= now;
}

async function currentApproval(
  { store, env }: Pick<SourceDeps, "store" | "env">,
  id: string,
): Promise<ApprovalRow | undefined> {
  const row = await approvalById(store, id);
  if (row?.status !== "pending" || row.deadline > env.now()) return row;
  await lapseApprovals(store);
  return approvalById(store, id);
}

/** Sends a draft: from now on its prices hold until `validDays` are over. */
export async function sendQuote(deps: SourceDeps, id: string, validDays: number): Promise<QuoteRow> {
  await refuseForeign(deps, "quote");
  const quote = await knownQuote(deps, id);
  if (quote.status !== "draft") throw wrongState(quote);
  const now = deps.env.now();
  await deps.store.write(
    [moveQuoteOp(deps.store, quote, "sent", { valid_until: now + validDays * dayMs }, now)],
    requestMs,
  );
  return knownQuote(deps, id);
}

/** Accepts a sent quote for a buyer. A quote above the buyer's limit waits for an approval. */
export async function acceptQuote(deps: SourceDeps, acting: Acting, id: string, buyerId?: string): Promise<QuoteRow> {
  await refuseForeign(deps, "quote");
  const quote = await knownQuote(deps, id);
  if (quote.status === "expired") throw new SvcError(quoteExpired, { detail: quote.status });
  if (quote.status !== "sent") throw wrongState(quote);
  const parties = await partiesOfQuote(deps, quote, buyerId);
  const authority = await authorityOf(deps, parties, quote.total_cents);
  if (authority.decision === "blocked") throw new SvcError(purchaseNotAuthorized, { detail: authority.reason });
  await deps.store.write(
    authority.decision === "allowed"
      ? [
          moveQuoteOp(deps.store, quote, "accepted", { buyer_id: parties.buyer.id }, deps.env.now()),
          ...holdOps(deps, parties),
        ]
      : [...askOps(deps, acting, quote, parties.buyer.id), ...holdOps(deps, parties)],
    requestMs,
  );
  return knownQuote(deps, id);
}

/** Makes the order and the invoice of an accepted quote, in one batch with the open amount of the account. */
export async function convertQuote(
  deps: SourceDeps,
  acting: Acting,
  id: string,
): Promise<{ readonly quote: QuoteRow; readonly invoice: InvoiceRow }> {
  const { store, env } = deps;
  await refuseForeign(deps, "quote");
  await refuseForeign(deps, "invoice");
  const quote = await knownQuote(deps, id);
  if (quote.status === "expired") throw new SvcError(quoteExpired, { detail: quote.status });
  if (quote.status !== "accepted" && quote.status !== "pending_approval") throw wrongState(quote);
  const parties = await partiesOfQuote(deps, quote);
  const authority = await authorityOf(deps, parties, quote.total_cents);
  if (authority.decision === "blocked") throw new SvcError(purchaseNotAuthorized, { detail: authority.reason });
  const isApproved = quote.status === "pending_approval";
  if (isApproved) {
    const request = await currentApproval(deps, quote.approval_id ?? "");
    if (request?.status !== "approved")
      throw new SvcError(quoteNotReady, {
        detail: { approval_id: quote.approval_id, status: request?.status ?? "gone" },
      });
  } else if (authority.decision === "requires_approval") {
    // The limit of the buyer was lowered after the acceptance.
    await store.write([...askOps(deps, acting, quote, quote.buyer_id), ...holdOps(deps, parties)], requestMs);
    const { approval_id } = await knownQuote(deps, id);
    throw new SvcError(quoteNotReady, { detail: { approval_id, status: "pending" } });
  }
  const now = env.now();
  const { account } = parties;
  const { provider } = await providerOf(deps);
  const order_id = `ord_${env.id()}`;
  const invoice: InvoiceRow = {
    ...{ id: `inv_${env.id()}`, ts: now, account_id: account.id, quote_id: quote.id, order_id },
    ...{ amount_cents: quote.total_cents, currency: quote.currency, terms: account.payment_terms, status: "open" },
    ...{ due_at: dueAt(account.payment_terms, now), paid_at: null, provider, external_ref: "", hosted_url: "" },
  };
  const mostCents = account.payment_terms === "prepaid" ? Number.MAX_SAFE_INTEGER : account.credit_limit_cents;
  const approved = isApproved && quote.approval_id !== null ? quote.approval_id : null;
  const payload = {
    ...{ quote_id: quote.id, order_id, invoice_id: invoice.id, total_cents: quote.total_cents },
    terms: account.payment_terms,
  };
  const ops: WriteOp[] = [
    ...(approved === null ? [] : [claimGrantOp(store, approved, quote.id), consumeGrantOp(store, approved)]),
    moveQuoteOp(store, quote, "ordered", { order_id, invoice_id: invoice.id }, now),
    ...holdOps(deps, parties),
    ...chargeOps(store, account.id, quote.total_cents, mostCents),
    ...orderOfQuoteOps(store, quote, order_id, now),
    insertInvoiceOp(store, invoice),
    ...billingOps(store, invoice, now),
    auditOp(store, deps, {
      ...{ event_type: quoteAudit, status: "ordered", manifest_id: acting.manifest },
      ...{ principal_subj: acting.principal.sub, payload },
    }),
  ];
  try {
    await store.write(ops, requestMs);
  } catch (error) {
    if (SvcError.from(error).code !== "conflict") throw error;
    // Something changed since the check: its refusal says what.
    const after = await knownQuote(deps, id);
    if (after.status === "expired") throw new SvcError(quoteExpired, { detail: after.status });
    if (after.status !== quote.status) throw wrongState(after);
    const now = await authorityOf(deps, await partiesOfQuote(deps, after), after.total_cents);
    if (now.decision === "blocked") throw new SvcError(purchaseNotAuthorized, { detail: now.reason });
    throw error;
  }
  return { quote: await knownQuote(deps, id), invoice };
}

interface Parties {
  readonly account: AccountRow;
  readonly buyer: BuyerRow;
  /** True for those that svc keeps itself, whose changes a batch can refuse. */
  readonly holdsAccount: boolean;
  readonly holdsBuyer: boolean;
}

async function partiesOf(deps: SourceDeps, accountId: string, buyerId: string) {
  const account = await findAccount(deps, accountId);
  const buyer = await findBuyer(deps, buyerId);
  return {
    account: account?.account,
    buyer: buyer?.buyer,
    holdsAccount: account?.isNative ?? false,
    holdsBuyer: buyer?.isNative ?? false,
  };
}

/** Returns the account of a quote, and the buyer who acts. Refuses with account_or_buyer_missing and buyer_not_in_account. */
async function partiesOfQuote(deps: SourceDeps, quote: QuoteRow, buyerId = quote.buyer_id): Promise<Parties> {
  const { account, buyer, ...holds } = await partiesOf(deps, quote.account_id, buyerId);
  if (account === undefined || buyer === undefined) throw new SvcError(accountOrBuyerMissing);
  if (buyer.account_id !== account.id) throw new SvcError(buyerNotInAccount);
  return { account, buyer, ...holds };
}

async function authorityOf(
  { store }: SourceDeps,
  { account, buyer }: Parties,
  amountCents: number,
): Promise<Authority> {
  return purchaseAuthority(account, buyer, await openCents(store, account.id), amountCents);
}

/** Returns operations that refuse with conflict if the account or the buyer has changed since they were read. */
function holdOps({ store }: SourceDeps, { account, buyer, holdsAccount, holdsBuyer }: Parties): WriteOp[] {
  return [...(holdsAccount ? [holdAccountOp(store, account)] : []), ...(holdsBuyer ? [holdBuyerOp(store, buyer)] : [])];
}

/** Returns the operations that park a quote, with its request for approval. */
function askOps(deps: SourceDeps, acting: Acting, quote: QuoteRow, buyerId: string): WriteOp[] {
  const { store, env } = deps;
  const now = env.now();
  const args = { account_id: quote.account_id, buyer_id: buyerId, amount_cents: quote.total_cents, quote_id: quote.id };
  const request = newRequest(deps, acting, args, signature(["quote", quote.id, String(quote.total_cents)]));
  const deadline = Math.min(now + approvalMsMax, quote.valid_until ?? Number.MAX_SAFE_INTEGER);
  return [
    askApprovalOp(store, { ...request, deadline }),
    moveQuoteOp(store, quote, "pending_approval", { buyer_id: buyerId, approval_id: request.id }, now),
    auditedCheck(deps, acting, args, { decision: "requires_approval", reason: "over_spending_limit" }, request.id),
  ];
}

/** Returns a request for approval of a purchase. Its arguments cannot be edited, and another person must decide. */
function newRequest(
  { env }: SourceDeps,
  acting: Acting,
  args: Readonly<Record<string, unknown>>,
  call_signature: string,
) {
  const id = env.id();
  const properties = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, { const: value }]));
  const parameters = { type: "object", properties, required: Object.keys(args), additionalProperties: false };
  const me = responsibleId(acting.principal);
  return {
    ...{ id, manifest_id: acting.manifest, tool_name: toolName, call_signature, args: JSON.stringify(args) },
    parameters: JSON.stringify(parameters),
    evidence: { effect: "once", risk: "spends", cost_usd: 0, tool_calls: 0 },
    ...{
      rule_id: ruleId,
      reason: "The amount is above the buyer's limit.",
      thread_id: acting.thread,
      tool_call_id: "",
    },
    ...{
      principal_subj: acting.principal.sub,
      bound_to: "",
      not_by: me,
      one_shot: 1,
      ttl_seconds: approvalMsMax / 1_000,
    },
  };
}

function auditedCheck(
  deps: SourceDeps,
  acting: Acting,
  { account_id, buyer_id, amount_cents }: { account_id: string; buyer_id: string; amount_cents: number },
  { decision, reason }: Authority,
  approval_id: string | null,
): WriteOp {
  return auditOp(deps.store, deps, {
    event_type: purchaseCheckAudit,
    status: decision === "blocked" ? "denied" : "ok",
    manifest_id: acting.manifest,
    principal_subj: acting.principal.sub,
    payload: { account_id, buyer_id, amount_cents, decision, reason, ...(approval_id !== null && { approval_id }) },
  });
}

async function knownQuote(deps: SourceDeps, id: string): Promise<QuoteRow> {
  const quote = await currentQuote(deps, id);
  if (quote === undefined) throw new SvcError("not_found");
  return quote;
}

function wrongState({ status }: QuoteRow): SvcError {
  return new SvcError(invalidQuoteState, { detail: status });
}

function signature(parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
