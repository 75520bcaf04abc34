import type { Env } from "../../../bus/env.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { modelCallOp, type NewModelCall } from "../../../storage/tables/model-calls.ts";
import { keepFrameOp } from "../../../storage/tables/model-frames.ts";
import type { PromptPrefix } from "../spec/prompt-prefix.ts";

/** The model calls of a run that are over and not on record yet. */
export class CallRows {
  /** Digests of the texts that rows of the run have by now. */
  readonly given = new Set<string>();
  #rows: NewModelCall[] = [];
  /** What these have in common with others, by digest; and of which of it a batch is on its way. */
  readonly #prefixes = new Map<string, PromptPrefix>();
  #sent: string[] = [];

  /** `frame` is null where it stands in the row. */
  add(row: NewModelCall, prefix: PromptPrefix | null): void {
    this.#rows.push(row);
    if (prefix !== null) this.#prefixes.set(prefix.digest, prefix);
  }

  /** The rows since it was last asked: they are written in the batch that keeps what the model has said. */
  takeOps(store: TenantStore, known: KnownPrefixes): WriteOp[] {
    if (this.#rows.length === 0) return [];
    const ops: WriteOp[] = [];
    // In one order, so that no two batches wait for each other's.
    for (const { digest, body } of [...this.#prefixes.values()].sort((a, b) => (a.digest < b.digest ? -1 : 1))) {
      if (known.has(store.tenantId, digest)) continue;
      ops.push(keepFrameOp(store, digest, body));
      this.#sent.push(digest);
    }
    for (const row of this.#rows) ops.push(modelCallOp(store, row));
    this.#prefixes.clear();
    this.#rows = [];
    return ops;
  }

  /** What was taken is durable. */
  written({ tenantId }: TenantStore, known: KnownPrefixes): void {
    for (const digest of this.#sent) known.add(tenantId, digest);
    this.#sent = [];
  }
}

/** How long nobody is told again that a prefix is in use: much less than it stays without being used. */
const toldMs = 30 * 60_000;
/** Frames of which a thread knows that they are kept. */
const knownMax = 10_000;

/** Of which frames this thread knows that they are in the store, so that they are seldom written again. */
export class KnownPrefixes {
  readonly #env: Env;
  /** When each was written last. */
  readonly #known = new Map<string, number>();

  constructor(env: Env) {
    this.#env = env;
  }

  has(tenantId: string, digest: string): boolean {
    const at = this.#known.get(keyOf(tenantId, digest));
    return at !== undefined && this.#env.monotonic() - at < toldMs;
  }

  /** A prefix of a tenant is durable. */
  add(tenantId: string, digest: string): void {
    const key = keyOf(tenantId, digest);
    this.#known.delete(key);
    this.#known.set(key, this.#env.monotonic());
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= knownMax) break;
      this.#known.delete(oldest);
    }
  }
}

function keyOf(tenantId: string, digest: string): string {
  return `${tenantId} ${digest}`;
}
