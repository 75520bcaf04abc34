import type { Env } from "../../../bus/env.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { modelCallOp, type NewModelCall } from "../../../storage/tables/model-calls.ts";
import { keepFrameOp } from "../../../storage/tables/model-frames.ts";
import type { PromptPrefix } from "../spec/prompt-prefix.ts";

/** Records of the run's finished model calls that are not stored yet. */
export class CallRows {
  /** Digests of the texts that the run's records already contain. */
  readonly given = new Set<string>();
  #rows: NewModelCall[] = [];
  /** Prompt prefixes of these records by digest, and the digests in the current batch. */
  readonly #prefixes = new Map<string, PromptPrefix>();
  #sent: string[] = [];

  /** Adds the record of a model call. `prefix` is null if the record contains it. */
  add(row: NewModelCall, prefix: PromptPrefix | null): void {
    this.#rows.push(row);
    if (prefix !== null) this.#prefixes.set(prefix.digest, prefix);
  }

  /** Returns the records since the last call, for the batch that stores the model's reply. */
  takeOps(store: TenantStore, known: KnownPrefixes): WriteOp[] {
    if (this.#rows.length === 0) return [];
    const ops: WriteOp[] = [];
    // A fixed order, so that concurrent batches do not deadlock.
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

  /** Marks the returned statements as durable. */
  written({ tenantId }: TenantStore, known: KnownPrefixes): void {
    for (const digest of this.#sent) known.add(tenantId, digest);
    this.#sent = [];
  }
}

/** Interval at which the last use of a prefix is renewed in the store. It is far below the time after which unused prefixes are deleted. */
const renewMs = 30 * 60_000;
/** Max prompt prefixes that a thread remembers. */
const knownMax = 10_000;

/** Prompt prefixes that this thread knows to be stored, so that they are seldom written again. */
export class KnownPrefixes {
  readonly #env: Env;
  /** Time of the last write, by tenant and digest. */
  readonly #known = new Map<string, number>();

  constructor(env: Env) {
    this.#env = env;
  }

  has(tenantId: string, digest: string): boolean {
    const at = this.#known.get(keyOf(tenantId, digest));
    return at !== undefined && this.#env.monotonic() - at < renewMs;
  }

  /** Records that a prefix of a tenant is durable. */
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
