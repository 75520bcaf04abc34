import type { Logger } from "pino";
import { SvcError } from "../bus/errors.ts";
import type { Scope } from "../storage/store/store.ts";
import { enterHostOp, expireHostsOp, lapseOthersOp, leaveHostOp, renewHostOp } from "../storage/tables/hosts.ts";
import { type AppliedRevisions, appliedRevisions, wentBack } from "../storage/tables/schema-revisions.ts";

/** Lifetime of the host's lease, and the interval of renewals. */
const leaseMs = 3_000;
const renewMs = 1_000;
/** Lifetime for a host that needs no renewal, because no other host can observe its expiry. */
const foreverMs = 100 * 365 * 86_400_000;
const idleMs = 3_600_000;

/** How a process takes part as a host. */
export interface HostLeaseOptions {
  readonly store: Scope;
  /** Unique id of this process. */
  readonly host: string;
  /** True if this process holds an exclusive lock on the database or its directory, so that every other host is gone. */
  readonly alone: boolean;
  /** True if other hosts can observe the expiry. An embedded database is locked by its process and needs no renewal. */
  readonly renewed: boolean;
  readonly log: Logger;
  /** Cleans up the work of hosts that are gone or may be. Awaited when the lease is taken. */
  readonly onGone: () => Promise<void>;
  /** Another host has declared this one gone, so this process no longer owns its runs. */
  readonly onLost: (error: Error) => void;
}

/** Takes, renews and releases the lease of this process, and removes hosts whose lease expired. */
export class HostLease {
  readonly #options: HostLeaseOptions;
  #state: "outside" | "inside" | "left" = "outside";
  #fails = false;
  /** Schema revisions, read just before the lease was taken. */
  #revisions: AppliedRevisions = new Map();

  constructor(options: HostLeaseOptions) {
    this.#options = options;
  }

  /** Takes or renews the lease. Returns the milliseconds until the next call. Never rejects. */
  async keep(): Promise<number> {
    const { log, onLost } = this.#options;
    try {
      if (this.#state === "outside") await this.#enter();
      else if (this.#state === "inside") await this.#renew();
      this.#fails = false;
    } catch (error) {
      if (SvcError.from(error).code === "conflict") {
        if (this.#state === "inside") onLost(await this.#whyLost());
        this.#state = "left";
      } else if (!this.#fails) log.warn({ err: error }, "the lease of this host could not be renewed");
      this.#fails = true;
      return renewMs;
    }
    return this.#options.renewed ? renewMs : idleMs;
  }

  /** Repeats the cleanup for gone hosts: a stalled host may have claimed something after its removal. */
  async lookForGone(): Promise<void> {
    if (this.#state === "inside") await this.#options.onGone();
  }

  /** Releases the lease, so that the next host need not wait for its expiry. */
  async leave(): Promise<void> {
    const { store, host, log } = this.#options;
    if (this.#state !== "inside") return;
    this.#state = "left";
    await store.write([leaveHostOp(store, host)], leaseMs).catch((error: unknown) => {
      log.warn({ err: error }, "the lease of this host could not be released");
    });
  }

  async #enter(): Promise<void> {
    const { store, host, alone, renewed, onGone } = this.#options;
    const others = alone ? lapseOthersOp(store, host) : expireHostsOp(store);
    // Read before the write: if this read fails, the lease is not taken, and the next attempt still removes gone hosts.
    this.#revisions = await appliedRevisions(store);
    await store.write([others, enterHostOp(store, host, renewed ? leaseMs : foreverMs)], leaseMs);
    this.#state = "inside";
    await onGone();
  }

  async #whyLost(): Promise<Error> {
    const revisions = await appliedRevisions(this.#options.store).catch(() => this.#revisions);
    return new Error(
      wentBack(this.#revisions, revisions)
        ? "the database schema was migrated down while this process ran, and the lease of this host is lost; restart the process"
        : "another host has declared this one dead",
    );
  }

  async #renew(): Promise<void> {
    const { store, host, renewed, onGone } = this.#options;
    if (!renewed) return;
    const [expired] = await store.write([renewHostOp(store, host, leaseMs), expireHostsOp(store)], leaseMs);
    if (expired && expired.length > 0) void onGone();
  }
}
