import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";

// Limits the memory for threads in the turns of one node. A turn needs its branch as text, as JSON for the model and as JSON for
// the client, many times the bytes in the log. Without a limit, a few dozen long threads would exhaust the heap.

/** A turn with fewer bytes is not counted. */
export const uncountedBytes = 64 * 1024;
/** Max wait of a turn for memory; shorter than its client's wait for acceptance. */
const patienceMs = 8_000;
/** Max waiting turns; more are refused. */
const waitingMax = 64;

/**
 * The bytes used by turns of this node. A tenant may use at most half of them. Waiting turns are admitted in order, and a tenant
 * that uses none always may have one turn.
 */
export class ContextMemory {
  readonly #bytesMax: number;
  readonly #env: Env;
  #held = 0;
  /** By tenant, while it uses any. */
  readonly #ofTenant = new Map<string, number>();
  #waiting: Waiter[] = [];

  constructor(bytesMax: number, env: Env) {
    this.#bytesMax = bytesMax;
    this.#env = env;
  }

  /** Returns the empty reservation of one turn. */
  room(tenantId: string): ContextRoom {
    return new ContextRoom(this, tenantId);
  }

  /** Reserves bytes for a tenant; returns a promise if it must wait. Refuses with mailbox_full. */
  take(tenantId: string, bytes: number, waitMs: number): Promise<void> | null {
    if (this.#waiting.length === 0 && this.#fits(tenantId, bytes)) {
      this.#add(tenantId, bytes);
      return null;
    }
    const ofTenant = this.#waiting.filter((waiter) => waiter.tenantId === tenantId).length;
    if (this.#waiting.length >= waitingMax || ofTenant >= waitingMax / 2) throw tooMuch();
    return new Promise((resolve, reject) => {
      const timer = this.#env.timer(waitMs, () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(tooMuch());
        // Smaller turns queued after it may fit now.
        this.#admit();
      });
      const waiter: Waiter = { tenantId, bytes, timer, admit: resolve };
      this.#waiting.push(waiter);
      this.#admit();
    });
  }

  /** Releases bytes of a tenant. */
  giveBack(tenantId: string, bytes: number): void {
    this.#add(tenantId, -bytes);
    this.#admit();
  }

  #add(tenantId: string, bytes: number): void {
    this.#held += bytes;
    const held = (this.#ofTenant.get(tenantId) ?? 0) + bytes;
    if (held === 0) this.#ofTenant.delete(tenantId);
    else this.#ofTenant.set(tenantId, held);
  }

  /** True if the bytes fit. A single turn always fits, however long its thread is. */
  #fits(tenantId: string, bytes: number): boolean {
    const ofTenant = this.#ofTenant.get(tenantId) ?? 0;
    if (this.#held + bytes > this.#bytesMax) return this.#held === 0;
    return ofTenant === 0 || ofTenant + bytes <= this.#bytesMax / 2;
  }

  /** Admits waiting turns in order, as far as they fit. A tenant at its half does not block other tenants. */
  #admit(): void {
    const full = new Set<string>();
    const left: Waiter[] = [];
    let isBlocked = false;
    for (const waiter of this.#waiting) {
      const { tenantId, bytes, timer, admit } = waiter;
      if (!isBlocked && !full.has(tenantId) && this.#fits(tenantId, bytes)) {
        this.#add(tenantId, bytes);
        timer.cancel();
        admit();
        continue;
      }
      left.push(waiter);
      if (this.#isShareFull(tenantId, bytes)) full.add(tenantId);
      else isBlocked = true;
    }
    this.#waiting = left;
  }

  #isShareFull(tenantId: string, bytes: number): boolean {
    const ofTenant = this.#ofTenant.get(tenantId) ?? 0;
    return ofTenant > 0 && ofTenant + bytes > this.#bytesMax / 2;
  }
}

/** The bytes that one turn reserves, until it leaves. */
export class ContextRoom {
  readonly #memory: ContextMemory;
  readonly #tenantId: string;
  #bytes = 0;

  constructor(memory: ContextMemory, tenantId: string) {
    this.#memory = memory;
    this.#tenantId = tenantId;
  }

  /**
   * Reserves this many bytes instead of the previous ones; returns a promise if the turn must wait, and reserves nothing while
   * it waits. Refuses with mailbox_full.
   */
  ask(bytes: number, waitMs: number = patienceMs): Promise<void> | null {
    if (bytes <= Math.max(this.#bytes, uncountedBytes)) return null;
    this.leave();
    const taken = this.#memory.take(this.#tenantId, bytes, waitMs);
    if (taken === null) {
      this.#bytes = bytes;
      return null;
    }
    return taken.then(() => {
      this.#bytes = bytes;
    });
  }

  /** Releases all bytes. */
  leave(): void {
    const bytes = this.#bytes;
    this.#bytes = 0;
    if (bytes > 0) this.#memory.giveBack(this.#tenantId, bytes);
  }
}

interface Waiter {
  readonly tenantId: string;
  readonly bytes: number;
  readonly timer: Timer;
  admit(): void;
}

function tooMuch(): SvcError {
  const message = "Running turns use all the memory that long threads may take: send the turn again later.";
  return new SvcError("mailbox_full", { message, retryAfterSeconds: 5 });
}
