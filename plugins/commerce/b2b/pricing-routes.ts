import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs } from "../../../storage/store/store.ts";
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
import { sourceUnavailable } from "../sources/entity-codes.ts";
import { changed, invalid, knownAccount, knownCurrency } from "./account-checks.ts";
import { accountNotFound, rulesFull } from "./b2b-codes.ts";
import { Contract, NewContract, NewRule, NextCursor, Paged, Rule } from "./b2b-schemas.ts";
import { depsOf } from "./request-deps.ts";
import { contractView, ruleView } from "./views.ts";

// Contract prices of accounts, and pricing rules.

const tag = "commerce";
const read = ["b2b:read"];
const write = ["b2b:write"];
const stored = ["storage_unavailable"] as const;
const reads = [sourceUnavailable, ...stored];
const Ok = Type.Object({ ok: Type.Boolean() });
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

/** Routes of contract prices and pricing rules. */
export const pricingRoutes: readonly Route[] = [
  ...[listContracts, putContractRoute, deleteContract, listRules, getRule, putRule, deleteRule],
];
