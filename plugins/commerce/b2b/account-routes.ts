import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { auditOp } from "../../../governance/audit.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs, type WriteOp } from "../../../storage/store/store.ts";
import { isCurrency } from "../core/money.ts";
import {
  contractsOf,
  putContract,
  putRuleOp,
  removeContract,
  removeRule,
  ruleById,
  ruleCount,
  rulePage,
  rulesMax,
} from "../pricing/price-tables.ts";
import type { PricingRule } from "../pricing/prices.ts";
import { sourceNotNative, sourceUnavailable } from "../sources/entity-codes.ts";
import type { SourceDeps } from "../sources/entity-source.ts";
import { findAccount, findBuyer, listAccounts, listBuyers, refuseForeign } from "./account-source.ts";
import {
  type AccountRow,
  accountById,
  type BuyerRow,
  buyerById,
  insertAccountOp,
  insertBuyerOp,
  openCents,
  removeAccount,
  removeBuyer,
  updateAccountOp,
  updateBuyerOp,
} from "./accounts.ts";
import { accountAudit } from "./b2b-audit.ts";
import { accountExists, accountInUse, accountNotFound, buyerExists, buyerNotFound, rulesFull } from "./b2b-codes.ts";
import {
  Account,
  AccountChange,
  Buyer,
  BuyerChange,
  Contract,
  NewAccount,
  NewBuyer,
  NewContract,
  NewRule,
  NextCursor,
  Paged,
  Rule,
  Source,
} from "./b2b-schemas.ts";
import { checkPurchase } from "./quoting.ts";
import { actingOf, depsOf } from "./request-deps.ts";
import { accountView, buyerView, contractView, ruleView } from "./views.ts";

// Accounts, their buyers and contract prices, and pricing rules.

const tag = "commerce";
const read = ["b2b:read"];
const write = ["b2b:write"];
const stored = ["storage_unavailable"] as const;
const reads = [sourceUnavailable, ...stored];
const Ok = Type.Object({ ok: Type.Boolean() });

const createAccount = route({
  method: "POST",
  path: "/b2b/accounts",
  summary: "Creates an account of a business.",
  tag,
  access: write,
  body: NewAccount,
  reply: { status: 201, description: "The account.", schema: Account },
  fails: [accountExists, sourceNotNative, "invalid_request", ...stored],
  async handle({ body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "account");
    const { id, name, payment_terms = "prepaid", credit_limit_cents = 0, discount_bps = 0, metadata = {} } = body;
    const currency = knownCurrency(body.currency ?? "usd");
    const row: AccountRow = {
      ...{ id, ts: context.env.now(), name, status: "active", payment_terms, credit_limit_cents, discount_bps },
      ...{ currency, metadata: metadata as AccountRow["metadata"], version: 1 },
    };
    refuseLong(metadata);
    await unlessTaken(
      [insertAccountOp(deps.store, row), changed(deps, principal.sub, "account", id)],
      deps,
      accountExists,
    );
    return json(accountView(principal.tenant_id, row, await openCents(deps.store, id)), 201);
  },
});

const listAccountsRoute = route({
  method: "GET",
  path: "/b2b/accounts",
  summary: "Accounts, the newest first.",
  tag,
  access: read,
  query: Type.Object(Paged, { additionalProperties: false }),
  reply: {
    description: "At most 200.",
    schema: Type.Object({ accounts: Type.Array(Account), source: Source, next_cursor: NextCursor }),
  },
  fails: ["invalid_cursor", ...reads],
  async handle({ query, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const { items, source, next_cursor } = await listAccounts(deps, query.cursor ?? null);
    const accounts = [];
    for (const row of items) accounts.push(accountView(principal.tenant_id, row, await openCents(deps.store, row.id)));
    return json({ accounts, source, next_cursor });
  },
});

const getAccount = route({
  method: "GET",
  path: "/b2b/accounts/{account_id}",
  summary: "One account.",
  tag,
  access: read,
  reply: { description: "The account.", schema: Account },
  fails: [accountNotFound, ...reads],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const account = await knownAccount(deps, String(params.account_id));
    return json(accountView(principal.tenant_id, account, await openCents(deps.store, account.id)));
  },
});

const changeAccount = route({
  method: "PATCH",
  path: "/b2b/accounts/{account_id}",
  summary: "Changes an account.",
  tag,
  access: write,
  body: AccountChange,
  reply: { description: "The account.", schema: Account },
  fails: [accountNotFound, sourceNotNative, "conflict", "invalid_request", ...stored],
  async handle({ params, body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "account");
    const before = await accountById(deps.store, String(params.account_id));
    if (before === undefined) throw new SvcError(accountNotFound);
    refuseLong(body.metadata ?? {});
    const row = { ...before, ...defined(body) } as AccountRow;
    await deps.store.write(
      [updateAccountOp(deps.store, row), changed(deps, principal.sub, "account", row.id, body)],
      requestMs,
    );
    return json(accountView(principal.tenant_id, row, await openCents(deps.store, row.id)));
  },
});

const deleteAccount = route({
  method: "DELETE",
  path: "/b2b/accounts/{account_id}",
  summary: "Deletes an account with its buyers and contract prices.",
  tag,
  access: write,
  reply: { description: "It is gone.", schema: Ok },
  fails: [accountNotFound, accountInUse, sourceNotNative, ...stored],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "account");
    const id = String(params.account_id);
    if (!(await removeAccount(deps.store, id)))
      throw new SvcError((await accountById(deps.store, id)) === undefined ? accountNotFound : accountInUse);
    await deps.store.write([changed(deps, principal.sub, "account", id, { deleted: true })], requestMs);
    return json({ ok: true });
  },
});

const createBuyer = route({
  method: "POST",
  path: "/b2b/accounts/{account_id}/buyers",
  summary: "Creates a buyer of an account.",
  tag,
  access: write,
  body: NewBuyer,
  reply: { status: 201, description: "The buyer.", schema: Buyer },
  fails: [accountNotFound, buyerExists, sourceNotNative, "invalid_request", ...reads],
  async handle({ params, body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "buyer");
    const account = await knownAccount(deps, String(params.account_id));
    const { id, email = "", name = "", role = "purchaser", spending_limit_cents = 0, subject = null } = body;
    const row: BuyerRow = {
      ...{ id, ts: context.env.now(), account_id: account.id, email, name, role, spending_limit_cents, subject },
      ...{ status: "active", version: 1 },
    };
    await unlessTaken([insertBuyerOp(deps.store, row), changed(deps, principal.sub, "buyer", id)], deps, buyerExists);
    return json(buyerView(principal.tenant_id, row), 201);
  },
});

const listBuyersRoute = route({
  method: "GET",
  path: "/b2b/accounts/{account_id}/buyers",
  summary: "Buyers of an account, the newest first.",
  tag,
  access: read,
  query: Type.Object(Paged, { additionalProperties: false }),
  reply: {
    description: "At most 200.",
    schema: Type.Object({ buyers: Type.Array(Buyer), source: Source, next_cursor: NextCursor }),
  },
  fails: [accountNotFound, "invalid_cursor", ...reads],
  async handle({ params, query, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const account = await knownAccount(deps, String(params.account_id));
    const { items, source, next_cursor } = await listBuyers(deps, account.id, query.cursor ?? null);
    return json({ buyers: items.map((row) => buyerView(principal.tenant_id, row)), source, next_cursor });
  },
});

const getBuyer = route({
  method: "GET",
  path: "/b2b/buyers/{buyer_id}",
  summary: "One buyer.",
  tag,
  access: read,
  reply: { description: "The buyer.", schema: Buyer },
  fails: [buyerNotFound, ...reads],
  async handle({ params, principal }, context) {
    const found = await findBuyer(depsOf(context, principal.tenant_id), String(params.buyer_id));
    if (found === undefined) throw new SvcError(buyerNotFound);
    return json(buyerView(principal.tenant_id, found.buyer));
  },
});

const changeBuyer = route({
  method: "PATCH",
  path: "/b2b/buyers/{buyer_id}",
  summary: "Changes a buyer.",
  tag,
  access: write,
  body: BuyerChange,
  reply: { description: "The buyer.", schema: Buyer },
  fails: [buyerNotFound, buyerExists, sourceNotNative, "conflict", "invalid_request", ...stored],
  async handle({ params, body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "buyer");
    const before = await buyerById(deps.store, String(params.buyer_id));
    if (before === undefined) throw new SvcError(buyerNotFound);
    const row = { ...before, ...defined(body) } as BuyerRow;
    const audited = {
      ...body,
      ...(body.email !== undefined && { email: true }),
      ...(body.name !== undefined && { name: true }),
    };
    await deps.store.write(
      [updateBuyerOp(deps.store, row), changed(deps, principal.sub, "buyer", row.id, audited)],
      requestMs,
    );
    return json(buyerView(principal.tenant_id, row));
  },
});

const deleteBuyer = route({
  method: "DELETE",
  path: "/b2b/buyers/{buyer_id}",
  summary: "Deletes a buyer.",
  tag,
  access: write,
  reply: { description: "The buyer is gone.", schema: Ok },
  fails: [buyerNotFound, sourceNotNative, ...stored],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    await refuseForeign(deps, "buyer");
    const id = String(params.buyer_id);
    if (!(await removeBuyer(deps.store, id))) throw new SvcError(buyerNotFound);
    await deps.store.write([changed(deps, principal.sub, "buyer", id, { deleted: true })], requestMs);
    return json({ ok: true });
  },
});

const purchaseCheck = route({
  method: "POST",
  path: "/b2b/accounts/{account_id}/purchase-check",
  summary: "Checks whether a buyer may purchase for an amount now.",
  tag,
  access: write,
  body: Type.Object(
    {
      buyer_id: Type.String({ minLength: 1, maxLength: 128, examples: ["bo"] }),
      amount_cents: Type.Integer({
        minimum: 1,
        maximum: 99_999_999,
        description: "The whole amount.",
        examples: [5_000],
      }),
      note: Type.String({ default: "", maxLength: 1_000, description: "For who decides." }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "An amount above the buyer's limit makes a request for approval, or repeats the one that is live.",
    schema: Type.Object({
      decision: Type.String({ description: "allowed, requires_approval or blocked.", examples: ["allowed"] }),
      reason: Type.String({
        description:
          "allowed, account_suspended, buyer_suspended, viewer_role, over_credit_limit, over_spending_limit or source_unavailable.",
        examples: ["allowed"],
      }),
      approval_id: Type.Optional(Type.String({ examples: ["5d41402abc4b2a76b9719d911017c592"] })),
      decide_at: Type.Optional(Type.String({ examples: ["/approvals/5d41402abc4b2a76b9719d911017c592/decide"] })),
    }),
  },
  fails: [accountNotFound, buyerNotFound, "invalid_request", "conflict", ...stored],
  async handle(request, context) {
    const { params, body, principal } = request;
    const deps = depsOf(context, principal.tenant_id);
    const asked = { account_id: String(params.account_id), ...body, asks: true };
    const checked = await checkPurchase(deps, actingOf(request), asked);
    const { approval_id } = checked;
    return json({ ...checked, ...(approval_id !== undefined && { decide_at: `/approvals/${approval_id}/decide` }) });
  },
});

const pageSize = 200;

const listContracts = route({
  method: "GET",
  path: "/b2b/accounts/{account_id}/pricing",
  summary: "Contract prices of an account, by product.",
  tag,
  access: read,
  query: Type.Object(Paged, { additionalProperties: false }),
  reply: {
    description: "At most 200.",
    schema: Type.Object({ prices: Type.Array(Contract), next_cursor: NextCursor }),
  },
  fails: [accountNotFound, ...reads],
  async handle({ params, query, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const account = await knownAccount(deps, String(params.account_id));
    const rows = await contractsOf(deps.store, account.id, query.cursor ?? "", pageSize + 1);
    const shown = rows.slice(0, pageSize);
    const next_cursor = rows.length > pageSize ? (shown.at(-1)?.product_id ?? null) : null;
    return json({ prices: shown.map((row) => contractView(principal.tenant_id, row)), next_cursor });
  },
});

const putContractRoute = route({
  method: "PUT",
  path: "/b2b/accounts/{account_id}/pricing/{product_id}",
  summary: "Sets the contract price of an account for a product.",
  tag,
  access: write,
  body: NewContract,
  reply: { description: "The price.", schema: Contract },
  fails: [accountNotFound, "invalid_request", ...reads],
  async handle({ params, body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const account = await knownAccount(deps, String(params.account_id));
    const product_id = String(params.product_id);
    if (product_id.length > 128) throw invalid("product_id", "product_id has more than 128 characters");
    const quantities = new Set(body.tiers.map(({ min_qty }) => min_qty));
    if (quantities.size < body.tiers.length) throw invalid("tiers", "two tiers have the same min_qty");
    const now = context.env.now();
    const currency = knownCurrency(body.currency ?? "usd");
    const row = { account_id: account.id, product_id, currency, tiers: body.tiers, created_at: now, updated_at: now };
    const stored = await putContract(deps.store, row);
    await deps.store.write([changed(deps, principal.sub, "contract_price", `${account.id}/${product_id}`)], requestMs);
    return json(contractView(principal.tenant_id, stored));
  },
});

const deleteContract = route({
  method: "DELETE",
  path: "/b2b/accounts/{account_id}/pricing/{product_id}",
  summary: "Deletes the contract price of an account for a product.",
  tag,
  access: write,
  reply: { description: "It is gone.", schema: Ok },
  fails: ["not_found", ...stored],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const [account, product] = [String(params.account_id), String(params.product_id)];
    if (!(await removeContract(deps.store, account, product))) throw new SvcError("not_found");
    await deps.store.write(
      [changed(deps, principal.sub, "contract_price", `${account}/${product}`, { deleted: true })],
      requestMs,
    );
    return json({ ok: true });
  },
});

const listRules = route({
  method: "GET",
  path: "/b2b/pricing-rules",
  summary: "Rules that change catalog prices, the newest first.",
  tag,
  access: read,
  query: Type.Object(Paged, { additionalProperties: false }),
  reply: { description: "At most 200.", schema: Type.Object({ items: Type.Array(Rule), next_cursor: NextCursor }) },
  fails: ["invalid_cursor", ...stored],
  async handle({ query, principal }, { store }) {
    const { rows, next_cursor } = await rulePage(store.tenant(principal.tenant_id), {}, query.cursor ?? null, pageSize);
    return json({ items: rows.map(ruleView), next_cursor });
  },
});

const getRule = route({
  method: "GET",
  path: "/b2b/pricing-rules/{rule_id}",
  summary: "One pricing rule.",
  tag,
  access: read,
  reply: { description: "The rule.", schema: Rule },
  fails: ["not_found", ...stored],
  async handle({ params, principal }, { store }) {
    const row = await ruleById(store.tenant(principal.tenant_id), String(params.rule_id));
    if (row === undefined) throw new SvcError("not_found");
    return json(ruleView(row));
  },
});

const putRule = route({
  method: "PUT",
  path: "/b2b/pricing-rules/{rule_id}",
  summary: "Sets a pricing rule.",
  tag,
  access: write,
  body: NewRule,
  reply: { description: "The rule.", schema: Rule },
  fails: [rulesFull, "invalid_request", ...stored],
  async handle({ params, body, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const id = String(params.rule_id);
    if (!/^[\w.~:@-]{1,128}$/.test(id)) throw invalid("rule_id", "rule_id has other characters than an id");
    const known = await ruleById(deps.store, id);
    if (known === undefined && (await ruleCount(deps.store)) >= rulesMax) throw new SvcError(rulesFull);
    const {
      scope,
      kind,
      adjustment_bps,
      floor_cents = null,
      ceiling_cents = null,
      conditions = {},
      active = true,
    } = body;
    const scope_value = body.scope_value ?? null;
    if ((scope === "catalog") !== (scope_value === null))
      throw invalid("scope_value", "scope_value is for a category or a product, and needed there");
    const problem = conditionProblem(kind, conditions);
    if (problem !== null) throw invalid("conditions", problem);
    const row = {
      ...{
        id,
        ts: known?.ts ?? context.env.now(),
        scope,
        scope_value,
        kind,
        adjustment_bps,
        floor_cents,
        ceiling_cents,
      },
      ...{ conditions: conditions as PricingRule["conditions"], active: active ? 1 : 0 },
    };
    await deps.store.write(
      [putRuleOp(deps.store, row), changed(deps, principal.sub, "pricing_rule", id, body)],
      requestMs,
    );
    return json(ruleView(row));
  },
});

const deleteRule = route({
  method: "DELETE",
  path: "/b2b/pricing-rules/{rule_id}",
  summary: "Deletes a pricing rule.",
  tag,
  access: write,
  reply: { description: "It is gone.", schema: Ok },
  fails: ["not_found", ...stored],
  async handle({ params, principal }, context) {
    const deps = depsOf(context, principal.tenant_id);
    const id = String(params.rule_id);
    if (!(await removeRule(deps.store, id))) throw new SvcError("not_found");
    await deps.store.write([changed(deps, principal.sub, "pricing_rule", id, { deleted: true })], requestMs);
    return json({ ok: true });
  },
});

/** The names in the conditions of each kind; those in `needs` must be there. */
const conditionNames = {
  time: { all: ["days", "from", "to"], needs: [] },
  velocity: { all: ["window_hours", "min_units"], needs: ["min_units"] },
  competitor: { all: ["max_price_cents"], needs: ["max_price_cents"] },
} as const;

function conditionProblem(kind: PricingRule["kind"], conditions: object): string | null {
  const { all, needs } = conditionNames[kind];
  const strange = Object.keys(conditions).find((name) => !(all as readonly string[]).includes(name));
  if (strange !== undefined) return `a rule of the kind ${kind} has no condition ${strange}`;
  const missing = needs.find((name) => !Object.hasOwn(conditions, name));
  return missing === undefined ? null : `a rule of the kind ${kind} needs ${missing}`;
}

async function knownAccount(deps: SourceDeps, id: string): Promise<AccountRow> {
  const found = await findAccount(deps, id);
  if (found === undefined) throw new SvcError(accountNotFound);
  return found.account;
}

/** Returns the audit row of a change. */
function changed(deps: SourceDeps, sub: string, what: string, id: string, change: object = {}): WriteOp {
  return auditOp(deps.store, deps, {
    event_type: accountAudit,
    status: "ok",
    manifest_id: "",
    principal_subj: sub,
    payload: { what, id, change },
  });
}

async function unlessTaken(ops: readonly WriteOp[], { store }: SourceDeps, taken: typeof accountExists): Promise<void> {
  try {
    await store.write(ops, requestMs);
  } catch (error) {
    throw SvcError.from(error).code === "conflict" ? new SvcError(taken) : error;
  }
}

/** Returns the given fields that are not undefined. */
function defined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

const metadataMax = 16_384;

function refuseLong(metadata: object): void {
  if (JSON.stringify(metadata).length > metadataMax)
    throw invalid("metadata", `metadata has more than ${metadataMax} characters`);
}

function knownCurrency(code: string): string {
  if (!isCurrency(code)) throw invalid("currency", "currency must have two decimals");
  return code;
}

function invalid(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type: "value_error" }] });
}

/** Routes of accounts. */
export const accountRoutes: readonly Route[] = [
  ...[createAccount, listAccountsRoute, getAccount, changeAccount, deleteAccount, createBuyer, listBuyersRoute],
  ...[getBuyer, changeBuyer, deleteBuyer, purchaseCheck, listContracts, putContractRoute, deleteContract],
  ...[listRules, getRule, putRule, deleteRule],
];
