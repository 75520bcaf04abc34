import type { Env } from "../../../bus/env.ts";
import type { TokenCount, TurnUsage } from "../../../bus/protocol/model-reply.ts";
import { costOf } from "../../../governance/usage.ts";
import type { ModelPrice, RouteTarget } from "../../../manifests/registries.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { insertUsageOp, type UsageRow, usageMeta } from "../../../storage/tables/usage.ts";

/** Adds up what the model calls of one turn used, and keeps a row for each. */
export class UsageMeter {
  readonly #rows: UsageRow[] = [];
  /** Rows that have been given out to be written. */
  #taken = 0;
  #total: TurnUsage | null;

  /** `before` is what was used before the run was put aside. */
  constructor(before: TurnUsage | null = null) {
    this.#total = before;
  }

  /** Null while no provider has reported any. */
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
    /** The provider has not reported them: the turn's own usage is without them. */
    readonly estimated: boolean;
    /** The call was not shown the conversation: it says nothing of how full its window is. */
    readonly aside?: boolean;
    /** What it was for; absent for what a model was asked. */
    readonly kind?: UsageRow["kind"];
  }): void {
    const { env, route, tokens, estimated } = call;
    const cost = costOf(tokens, call.price);
    this.#rows.push({
      // Calls of one millisecond are listed by their ids, which keep them in order.
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

  /** Adds what a task has used. Its rows are its own, and it says nothing of how full this window is. */
  addTask(used: TurnUsage): void {
    this.#total = sumOf(this.#total, { ...used, totalTokens: this.#total?.totalTokens ?? 0 });
  }

  /** The rows of the calls since it was last asked: they are written in the batch that keeps what the model has said. */
  takeOps(store: TenantStore): WriteOp[] {
    const rows = this.#rows.slice(this.#taken);
    // In one order, so that no two batches wait for each other's sums of a day.
    if (rows.length > 1) rows.sort((a, b) => (a.model_id < b.model_id ? -1 : 1));
    this.#taken = this.#rows.length;
    return rows.map((row) => insertUsageOp(store, row));
  }
}

/** Both together; the last one says how full the window is. */
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
