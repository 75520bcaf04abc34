import type { Env, Timer } from "../bus/env.ts";
import type { Store, TenantStore, WriteOp } from "../storage/store/store.ts";
import { insertAuditOp } from "../storage/tables/audit.ts";
import type { SecretMask } from "./secret-mask.ts";

/** Something that was done, refused or found. `payload` is masked before it is kept. */
export interface AuditEvent {
  readonly event_type: string;
  readonly status: string;
  readonly manifest_id: string;
  readonly principal_subj: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Rows that may wait for the next flush; beyond it new ones are dropped and counted. */
const bufferMax = 200_000;
/** Rows of one write batch, which goes out when it has so many: enough to be cheap, few enough that a turn does not wait long behind it. */
const batchRows = 100;
/** Characters of one payload; what is longer is replaced by a mark that says so. */
const payloadMax = 16_384;

/**
 * Collects audit events of a thread and writes them by the hundred, every few seconds and at shutdown. A process that is killed loses
 * what it has not flushed, at most one interval.
 */
export class AuditLog {
  readonly #store: Store;
  readonly #env: Env;
  readonly #mask: SecretMask;
  readonly #flushMs: number;
  readonly #onDropped: () => void;
  /** Batches that are full, the oldest first, and the one that is being filled. */
  readonly #full: WriteOp[][] = [];
  #filling: WriteOp[] = [];
  /** How many events this millisecond has had. */
  #inMillisecond = 0;
  #millisecond = 0;
  #timer: Timer | null = null;
  #flushing: Promise<boolean> | null = null;
  /** The batch that is being filled is written too, not only full ones. */
  #writesAll = false;

  /** `flushSeconds` 0 writes at shutdown only. */
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
        event_type: event.event_type,
        manifest_id: event.manifest_id,
        principal_subj: event.principal_subj,
        status: event.status,
        payload: payloadText(event.payload, this.#mask),
      }),
    );
    if (this.#filling.length === batchRows) {
      this.#full.push(this.#filling);
      this.#filling = [];
      // What waits for a store that is not writable waits for the timer.
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

  /** Writes what waits. What cannot be written stays for the next time; false when there is any. */
  async flush(): Promise<boolean> {
    // One that was over already has not heard that all is to be written.
    do this.#writesAll = true;
    while ((await this.#begin()) && this.#waitingRows > 0);
    return this.#waitingRows === 0;
  }

  /** Writes full batches, and all that waits when that is asked for meanwhile. False when the store does not take it. */
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
        // The store is not writable now. Nothing is lost yet; what was written without an answer is the same rows when sent again.
        this.#laterUnlessPlanned();
        return false;
      }
      this.#full.shift();
    }
  }

  /**
   * Ids of one millisecond rise, so that its events are listed in the order in which they happened. They begin anew with the next,
   * or a tenant could read from them how much the others do.
   */
  #idAt(ts: number): string {
    this.#inMillisecond = ts === this.#millisecond ? this.#inMillisecond + 1 : 0;
    this.#millisecond = ts;
    return (this.#inMillisecond & 0xffff).toString(16).padStart(4, "0") + this.#env.id().slice(4);
  }
}

/** A row that is written at once, with what it tells of. */
export function auditOp(store: TenantStore, { env, mask }: { env: Env; mask: SecretMask }, event: AuditEvent): WriteOp {
  return insertAuditOp(store, { ...event, id: env.id(), ts: env.now(), payload: payloadText(event.payload, mask) });
}

function payloadText(payload: AuditEvent["payload"], mask: SecretMask): string {
  const text = mask.recorded.jsonText(JSON.stringify(payload));
  if (text.length <= payloadMax) return text;
  const { thread_id, request_id, tool, tool_call_id, latency_ms, control } = payload;
  return JSON.stringify({ thread_id, request_id, tool, tool_call_id, latency_ms, control, truncated: true });
}
