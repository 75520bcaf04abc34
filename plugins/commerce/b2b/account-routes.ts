import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs, type WriteOp } from "../../../storage/store/store.ts";
import { sourceNotNative, sourceUnavailable } from "../sources/entity-codes.ts";
import type { SourceDeps } from "../sources/entity-source.ts";
import { changed, invalid, knownAccount, knownCurrency } from "./account-checks.ts";
import { accountShown, findBuyer, listAccounts, listBuyers, refuseForeign } from "./account-source.ts";
import {
  type AccountRow,
  accountById,
  type BuyerRow,
  buyerById,
  insertAccountOp,
  insertBuyerOp,
  removeAccount,
  removeBuyer,
  updateAccountOp,
  updateBuyerOp,
} from "./accounts.ts";
import { accountExists, accountInUse, accountNotFound, buyerExists, buyerNotFound } from "./b2b-codes.ts";
import {
  Account,
  AccountChange,
  Buyer,
  BuyerChange,
  NewAccount,
  NewBuyer,
  NextCursor,
  Paged,
  Source,
} from "./b2b-schemas.ts";
import { checkPurchase } from "./quoting.ts";
import { actingOf, depsOf } from "./request-deps.ts";
import { buyerView } from "./views.ts";

// Accounts and their buyers.

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
    return json(await accountShown(deps, row), 201);
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
    for (const row of items) accounts.push(await accountShown(deps, row));
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
    return json(await accountShown(deps, account));
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
    return json(await accountShown(deps, row));
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

/** Routes of accounts and their buyers. */
export const accountRoutes: readonly Route[] = [
  ...[createAccount, listAccountsRoute, getAccount, changeAccount, deleteAccount, createBuyer, listBuyersRoute],
  ...[getBuyer, changeBuyer, deleteBuyer, purchaseCheck],
];
