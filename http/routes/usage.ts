import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import type { Budget } from "../../governance/settings/budgets.ts";
import { callerBudget, keyBudget, periodAt } from "../../governance/spending.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { spendingOfPeriod } from "../../storage/tables/budget-spending.ts";
import { runtimeKeysOf } from "../../storage/tables/runtime-keys.ts";
import { isEstimated, threadsUsage, type UsageWindow, usagePage, usageSummary } from "../../storage/tables/usage.ts";
import type { HttpContext } from "../context.ts";
import { json } from "../exchange/reply.ts";
import { route } from "../route.ts";
import { EpochMs, epochMs, epochRange, nullable } from "../schemas/common.ts";
import { noon } from "../schemas/example-values.ts";
import type { Tag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";

const tag: Tag = { name: "Usage", description: "Tokens and cost of model calls." };
const scopes = ["usage:read"];
const windowDefaultMs = 30 * 86_400_000;

const tokenCounts = {
  tokens_input: Type.Integer({ description: "Without cached tokens.", examples: [1186] }),
  tokens_output: Type.Integer({ examples: [55] }),
  cache_creation: Type.Integer(),
  cache_read: Type.Integer(),
  cost_usd: Type.Number(),
};
const sums = { calls: Type.Integer({ description: "Model calls.", examples: [2] }), ...tokenCounts };

const UsageItem = Type.Object({
  id: Type.String({ examples: ["0001a0c346707e521b1f7bf6eb5b5344"] }),
  tenant_id: Type.String({ examples: ["default"] }),
  ts: EpochMs,
  manifest_id: Type.String({ examples: ["quick"] }),
  model_id: Type.String({ description: "The route; `wire_model_id` is the provider's own name.", examples: ["demo"] }),
  wire_model_id: Type.String({ examples: ["demo"] }),
  kind: Type.String({ examples: ["tokens"] }),
  ...tokenCounts,
  estimated: Type.Optional(
    Type.Literal(true, {
      description: "True: the tokens are estimated, because the provider reported none or the call was stopped.",
    }),
  ),
  thread_id: Type.String({
    description: "`{tenant}:{suffix}`, empty for a stateless turn.",
    examples: ["default:tour"],
  }),
  meta_json: Type.String({ description: "JSON.", examples: ['{"provider":"demo"}'] }),
});

const windowFields = {
  since_ms: Type.Optional(
    Type.Integer({
      ...epochRange,
      description: "From this time on, epoch milliseconds; default 30 days before until_ms.",
    }),
  ),
  until_ms: Type.Optional(
    Type.Integer({ ...epochRange, description: "Before this time, epoch milliseconds; default now." }),
  ),
};

const usage = route({
  method: "GET",
  path: "/usage",
  summary: "Tokens and cost of each model call, the newest first.",
  tag,
  access: scopes,
  tenancy: [
    { of: "thread", query: (id) => `thread_id=${id}` },
    { of: "manifest", query: (id) => `manifest_id=${id}` },
  ],
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Rows per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
    manifest_id: Type.Optional(Type.String({ description: "Calls of this manifest." })),
    thread_id: Type.Optional(Type.String({ description: "Calls of this thread: its suffix, or its full id." })),
  }),
  reply: {
    description: "A page.",
    schema: Type.Object({ items: Type.Array(UsageItem), next_cursor: nullable(Type.String(), { examples: [null] }) }),
  },
  fails: ["invalid_cursor", "invalid_thread_id", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const { tenant_id } = principal;
    const { manifest_id, cursor = null, limit } = query;
    const suffix = threadFilter(query.thread_id, tenant_id);
    const filter = {
      ...(manifest_id !== undefined && { manifest_id }),
      ...(suffix !== null && { thread_id: `${tenant_id}:${suffix}` }),
    };
    const { rows, next_cursor } = await usagePage(store.tenant(tenant_id), filter, cursor, limit);
    return json({
      items: rows.map(({ id, ...row }) => ({ id, tenant_id, ...row, ...(isEstimated(row) && { estimated: true }) })),
      next_cursor,
    });
  },
});

const summary = route({
  method: "GET",
  path: "/usage/summary",
  summary: "Spending by manifest, model and UTC day, the newest day first.",
  tag,
  access: scopes,
  tenancy: [{ of: "manifest", query: (id) => `manifest_id=${id}&since_ms=1&until_ms=9` }],
  query: Type.Object({
    ...windowFields,
    manifest_id: Type.Optional(Type.String({ description: "Spending of this manifest." })),
  }),
  reply: {
    description: "`totals` is over all items.",
    schema: Type.Object({
      since_ms: epochMs(noon - 2_592_000_000),
      until_ms: EpochMs,
      items: Type.Array(
        Type.Object({
          manifest_id: Type.String({ examples: ["quick"] }),
          model_id: Type.String({ examples: ["demo"] }),
          day: Type.String({ description: "YYYY-MM-DD.", examples: ["2026-11-23"] }),
          ...sums,
        }),
      ),
      totals: Type.Object(sums),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ query, principal }, context) {
    const window = windowOf(query, context);
    const found = await usageSummary(context.store.tenant(principal.tenant_id), window, query.manifest_id ?? null);
    return json({ since_ms: window.since, until_ms: window.until, ...found });
  },
});

const threads = route({
  method: "GET",
  path: "/usage/threads",
  summary: "Spending by thread, the most recently active first.",
  tag,
  access: scopes,
  query: Type.Object({
    ...windowFields,
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Threads listed." }),
  }),
  reply: {
    description: "`totals` is over all threads, including those cut off (`truncated`).",
    schema: Type.Object({
      since_ms: epochMs(noon - 2_592_000_000),
      until_ms: EpochMs,
      items: Type.Array(
        Type.Object({
          thread_id: Type.String({ examples: ["default:tour"] }),
          ...sums,
          first_ts: EpochMs,
          last_ts: EpochMs,
        }),
      ),
      totals: Type.Object(sums),
      truncated: Type.Boolean({ examples: [false] }),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ query, principal }, context) {
    const window = windowOf(query, context);
    const found = await threadsUsage(context.store.tenant(principal.tenant_id), window, query.limit);
    return json({ since_ms: window.since, until_ms: window.until, ...found });
  },
});

const Spent = Type.Object({
  limit: Type.Number({ examples: [1_000_000] }),
  spent: Type.Number({ description: "Of calls that have ended.", examples: [120_400] }),
  reserved: Type.Number({ description: "By calls that run, and by calls whose process was killed.", examples: [0] }),
});

const budgets = route({
  method: "GET",
  path: "/usage/budgets",
  summary: "The budgets of the tenant, and what is spent of them in this period.",
  tag,
  access: scopes,
  reply: {
    description: "A budget for each caller has an item for each one that has spent; at most 200.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          id: Type.String({ examples: ["team"] }),
          period: Type.Union([Type.Literal("day"), Type.Literal("month")], { description: "In UTC." }),
          principal: nullable(Type.String({ description: "Subject of the caller that it is for." }), {
            examples: [null],
          }),
          manifest: nullable(Type.String({ description: "The manifest that it is for." }), { examples: [null] }),
          starts_at: EpochMs,
          resets_at: EpochMs,
          tokens: nullable(Spent),
          usd: nullable(Spent),
          warned: Type.Boolean({ description: "True after the warning at 80 percent.", examples: [false] }),
        }),
      ),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ principal }, { settings, store, env }) {
    const own = settings.budgets.filter(({ tenant_id }) => tenant_id === principal.tenant_id);
    const tenant = store.tenant(principal.tenant_id);
    const keys = settings.runtimeKeys ? await runtimeKeysOf(tenant) : [];
    const ofKeys = keys.filter(({ budget }) => budget !== null).map((row) => keyBudget(principal.tenant_id, row));
    const pages = await Promise.all([...own, ...ofKeys].map((budget) => standingOf(budget, tenant, env.now())));
    // A tenant has the budgets of plugins whose callers have spent from them.
    const shared = settings.callerBudgets.map((budget) => callerBudget(principal.tenant_id, budget));
    const ofCallers = await Promise.all(shared.map((budget) => standingOf(budget, tenant, env.now(), false)));
    return json({ items: [...pages, ...ofCallers].flat() });
  },
});

/** Max callers listed for a budget of each caller. */
const subjectsMax = 200;

async function standingOf(budget: Budget, store: TenantStore, now: number, isShownUnspent = true) {
  const { start, end } = periodAt(budget, now);
  const rows = await spendingOfPeriod(store, budget.id, start, subjectsMax);
  const isForEach = budget.principal === "*";
  // The setting may have changed during the period.
  const counted = rows.filter(({ subject }) => (subject !== "") === isForEach);
  const none = { subject: "", tokens: 0, usd: 0, settled_tokens: 0, settled_usd: 0, warned: 0 };
  return (counted.length === 0 && !isForEach && isShownUnspent ? [none] : counted).map((row) => {
    const spent = (unit: "tokens" | "usd") => {
      const settled = unit === "tokens" ? row.settled_tokens : row.settled_usd;
      const limit = budget[unit];
      return limit === null ? null : { limit, spent: settled, reserved: Math.max(0, row[unit] - settled) };
    };
    return {
      ...{ id: budget.id, period: budget.period, principal: isForEach ? row.subject : budget.principal },
      ...{ manifest: budget.manifest, starts_at: start, resets_at: end },
      ...{ tokens: spent("tokens"), usd: spent("usd"), warned: row.warned === 1 },
    };
  });
}

/** Refuses an empty window with invalid_request. */
function windowOf(query: { since_ms?: number; until_ms?: number }, { env }: HttpContext): UsageWindow {
  // The end is exclusive, so add 1 to include usage of this millisecond.
  const until = query.until_ms ?? env.now() + 1;
  const since = query.since_ms ?? Math.max(0, until - windowDefaultMs);
  if (since < until) return { since, until };
  const detail = [{ loc: ["query", "until_ms"], msg: "until_ms must be after since_ms", type: "out_of_range" }];
  throw new SvcError("invalid_request", { detail });
}

export const usageRoutes = [usage, summary, threads, budgets];
