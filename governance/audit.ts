import type { Env, Timer } from "../bus/env.ts";
import type { Store, TenantStore, WriteOp } from "../storage/store/store.ts";
import { insertAuditOp } from "../storage/tables/audit.ts";
import { type AuditType, auditTypeName } from "./audit-types.ts";
import type { SecretMask } from "./secret-mask.ts";

/** A decision, an access or a finding. `payload` is masked before it is stored. */
export interface AuditEvent {
  readonly event_type: AuditType;
  readonly status: string;
  readonly manifest_id: string;
  readonly principal_subj: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Max rows in the buffer; further rows are dropped and counted. */
const bufferMax = 200_000;
/** Rows of one write batch. A full batch is written at once; a larger one would delay the writes of turns. */
const batchRows = 100;
/** Max characters of one payload; a longer one is replaced by its ids and `truncated: true`. */
const payloadMax = 16_384;

/**
 * Buffers the audit events of one thread and writes them in batches: every few seconds, when a batch is full, and at shutdown. A
 * killed process loses at most one interval.
 */
export class AuditLog {
  readonly #store: Store;
  readonly #env: Env;
  readonly #mask: SecretMask;
  readonly #flushMs: number;
  readonly #onDropped: () => void;
  /** Full batches, oldest first. */
  readonly #full: WriteOp[][] = [];
  #filling: WriteOp[] = [];
  /** Number of events in the current millisecond. */
  #inMillisecond = 0;
  #millisecond = 0;
  #timer: Timer | null = null;
  #flushing: Promise<boolean> | null = null;
  /** True if the current flush also writes the batch that is not full yet. */
  #writesAll = false;

  /** With `flushSeconds` 0, rows are written at shutdown only. */
  constructor(store: Store, env: Env, mask: SecretMask, flushSeconds: number, onDropped: () => void) {
    this.#store = store;
    this.#env = env;
    this.#mask = mask;
    this.#flushMs = flushSeconds * 1000;
    this.#onDropped = onDropped;
  }

  record(tenantId: string, event: AuditEvent): void {
    if (this.#waitingRows >= bufferMax) {
      this.#onDropped();
      return;
    }
    const ts = this.#env.now();
    this.#filling.push(
      insertAuditOp(this.#store.tenant(tenantId), {
        id: this.#idAt(ts),
        ts,
        event_type: auditTypeName(event.event_type),
        manifest_id: event.manifest_id,
        principal_subj: event.principal_subj,
        status: event.status,
        payload: payloadText(event.payload, this.#mask),
      }),
    );
    if (this.#filling.length === batchRows) {
      this.#full.push(this.#filling);
      this.#filling = [];
      // Only the first full batch starts a write. If the store is not writable, the timer retries.
      if (this.#full.length === 1 && this.#flushMs > 0) void this.#begin();
    }
    this.#laterUnlessPlanned();
  }

  get #waitingRows(): number {
    return this.#full.length * batchRows + this.#filling.length;
  }

  #laterUnlessPlanned(): void {
    if (this.#timer === null && this.#flushMs > 0) this.#timer = this.#env.timer(this.#flushMs, this.#onTimer);
  }

  /** Writes the buffered rows. Returns false if rows remain because the store is not writable. */
  async flush(): Promise<boolean> {
    // A write that had already ended did not see `#writesAll`, so set it again and start another.
    do this.#writesAll = true;
    while ((await this.#begin()) && this.#waitingRows > 0);
    return this.#waitingRows === 0;
  }

  /** Writes the full batches, and with `#writesAll` the partial one too. Returns false if the store rejects a batch. */
  #begin(): Promise<boolean> {
    this.#flushing ??= this.#write().finally(() => {
      this.#flushing = null;
      this.#writesAll = false;
    });
    return this.#flushing;
  }

  #onTimer = (): void => {
    this.#timer = null;
    void this.flush();
  };

  async #write(): Promise<boolean> {
    for (;;) {
      if (this.#writesAll && this.#full.length === 0 && this.#filling.length > 0) {
        this.#full.push(this.#filling);
        this.#filling = [];
      }
      const [batch] = this.#full;
      if (batch === undefined) return true;
      try {
        await this.#store.system.write(batch);
      } catch {
        // The store is not writable, so keep the rows. If the outcome is unknown, the retry inserts the same ids again.
        this.#laterUnlessPlanned();
        return false;
      }
      this.#full.shift();
    }
  }

  /**
   * Returns an id that sorts by the order of events within a millisecond. The counter restarts each millisecond; otherwise a
   * tenant could read from it how many events other tenants have.
   */
  #idAt(ts: number): string {
    this.#inMillisecond = ts === this.#millisecond ? this.#inMillisecond + 1 : 0;
    this.#millisecond = ts;
    return (this.#inMillisecond & 0xffff).toString(16).padStart(4, "0") + this.#env.id().slice(4);
  }
}

/** Returns the statement for an audit row that commits with the change that it records. */
export function auditOp(store: TenantStore, { env, mask }: { env: Env; mask: SecretMask }, event: AuditEvent): WriteOp {
  const event_type = auditTypeName(event.event_type);
  const payload = payloadText(event.payload, mask);
  return insertAuditOp(store, { ...event, event_type, id: env.id(), ts: env.now(), payload });
}

function payloadText(payload: AuditEvent["payload"], mask: SecretMask): string {
  const text = mask.recorded.jsonText(JSON.stringify(payload));
  if (text.length <= payloadMax) return text;
  const { thread_id, request_id, tool, tool_call_id, latency_ms, control } = payload;
  return JSON.stringify({ thread_id, request_id, tool, tool_call_id, latency_ms, control, truncated: true });
}
