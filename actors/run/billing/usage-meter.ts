import type { Env } from "../../../bus/env.ts";
import type { TokenCount, TurnUsage } from "../../../bus/protocol/model-reply.ts";
import { costOf } from "../../../governance/usage.ts";
import type { ModelPrice, ModelRoute, RouteTarget } from "../../../manifests/registries.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertUsageOp, type UsageRow, usageMeta } from "../../../storage/tables/usage.ts";
import type { RunSpec } from "../spec/run-spec.ts";

/** Sums the usage of a turn's model calls, and collects a usage row for each. */
export class UsageMeter {
  readonly #rows: UsageRow[] = [];
  /** Number of rows that were returned for writing. */
  #taken = 0;
  #total: TurnUsage | null;

  /** `before` is the usage before the run was suspended. */
  constructor(before: TurnUsage | null = null) {
    this.#total = before;
  }

  /** Null while no provider has reported usage. */
  get total(): TurnUsage | null {
    return this.#total;
  }

  add(call: {
    readonly env: Env;
    readonly manifestId: string;
    readonly route: RouteTarget;
    readonly price: ModelPrice | null;
    readonly threadId: string;
    readonly requestId: string;
    readonly tokens: TokenCount;
    /** True if the provider has not reported the tokens. The usage of the turn then leaves them out. */
    readonly estimated: boolean;
    /** True if the call did not show the thread's messages, so that its size does not measure the context window. */
    readonly aside?: boolean;
    /** Purpose of the call; absent for a plain model call. */
    readonly kind?: UsageRow["kind"];
  }): void {
    const { env, route, tokens, estimated } = call;
    const cost = costOf(tokens, call.price);
    this.#rows.push({
      // Rows of the same millisecond are sorted by id, so the id contains their order.
      id: this.#rows.length.toString(16).padStart(4, "0") + env.id().slice(4),
      ts: env.now(),
      manifest_id: call.manifestId,
      model_id: route.id,
      wire_model_id: route.model,
      kind: call.kind ?? "tokens",
      tokens_input: tokens.input,
      tokens_output: tokens.output,
      cache_creation: tokens.cacheWrite,
      cache_read: tokens.cacheRead,
      cost_usd: cost.total,
      thread_id: call.threadId,
      meta_json: usageMeta({ provider: route.provider, request_id: call.requestId, estimated }),
    });
    if (estimated) return;
    const before = this.#total;
    const shown = tokens.input + tokens.output + tokens.cacheRead + tokens.cacheWrite;
    const totalTokens = call.aside ? (before?.totalTokens ?? 0) : shown;
    this.#total = sumOf(before, { ...tokens, totalTokens, cost });
  }

  /** Adds the usage of a task. The task has its own rows, and its size does not measure this context window. */
  addTask(used: TurnUsage): void {
    this.#total = sumOf(this.#total, { ...used, totalTokens: this.#total?.totalTokens ?? 0 });
  }

  /** Returns the rows since the last call, for the batch that stores the model's reply. */
  takeOps(store: TenantStore): WriteOp[] {
    const rows = this.#rows.slice(this.#taken);
    // A fixed order, so that concurrent batches do not deadlock on the daily sums.
    if (rows.length > 1) rows.sort((a, b) => (a.model_id < b.model_id ? -1 : 1));
    this.#taken = this.#rows.length;
    return rows.map((row) => insertUsageOp(store, row));
  }
}

/** Returns the sum of both. The total tokens are those of the last call, which measure the context window. */
function sumOf(before: TurnUsage | null, last: TurnUsage): TurnUsage {
  if (before === null) return last;
  const { cost } = before;
  const reasoning = (before.reasoning ?? 0) + (last.reasoning ?? 0);
  return {
    ...(reasoning > 0 && { reasoning }),
    input: before.input + last.input,
    output: before.output + last.output,
    cacheRead: before.cacheRead + last.cacheRead,
    cacheWrite: before.cacheWrite + last.cacheWrite,
    totalTokens: last.totalTokens,
    cost: {
      input: cost.input + last.cost.input,
      output: cost.output + last.cost.output,
      cacheRead: cost.cacheRead + last.cost.cacheRead,
      cacheWrite: cost.cacheWrite + last.cost.cacheWrite,
      total: cost.total + last.cost.total,
    },
  };
}

/** The prices of a route in this run. Prices of the manifest apply to the manifest's own model only. */
export function priceOf(spec: RunSpec, route: ModelRoute): ModelPrice | null {
  return route.id === spec.agent.model.route.id && !route.decides ? spec.agent.model.price : route.price;
}

/** The highest prices among the routes, for reservations: no candidate costs more. */
export function highestPrice(spec: RunSpec, routes: readonly ModelRoute[]): ModelPrice | null {
  let price: ModelPrice | null = null;
  for (const route of routes) {
    const candidate = priceOf(spec, route);
    if (candidate === null) continue;
    price =
      price === null
        ? candidate
        : {
            input: Math.max(price.input, candidate.input),
            output: Math.max(price.output, candidate.output),
            cache_read: Math.max(price.cache_read, candidate.cache_read),
            cache_write: Math.max(price.cache_write, candidate.cache_write),
          };
  }
  return price;
}
