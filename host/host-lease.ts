import type { Logger } from "pino";
import { SvcError } from "../bus/errors.ts";
import type { Scope } from "../storage/store/store.ts";
import { enterHostOp, expireHostsOp, lapseOthersOp, leaveHostOp, renewHostOp } from "../storage/tables/hosts.ts";
import { type AppliedRevisions, appliedRevisions, wentBack } from "../storage/tables/schema-revisions.ts";

/** How long a host counts as being there after it has said so, and how often it says so. */
const leaseMs = 3_000;
const renewMs = 1_000;
/** For a host that needs no renewal: nobody sees the end of it. */
const foreverMs = 100 * 365 * 86_400_000;
const idleMs = 3_600_000;

/** How a process is a host. */
export interface HostLeaseOptions {
  readonly store: Scope;
  /** The host's id, of this process and no other. */
  readonly host: string;
  /** The process holds what only one can hold, the database or its directory: every other host is gone. */
  readonly alone: boolean;
  /** Whether others can see it lapse. An embedded database is locked for as long as its process lives, and need not be written to. */
  readonly renewed: boolean;
  readonly log: Logger;
  /** Other hosts are gone, or may be: what they have left belongs to nobody. Awaited when the lease is taken. */
  readonly onGone: () => Promise<void>;
  /** Others have taken this host for gone, and what it runs is not its own any more. */
  readonly onLost: (error: Error) => void;
}

/** The lease of this process: taken, kept, given back. Takes out the hosts that do not keep theirs. */
export class HostLease {
  readonly #options: HostLeaseOptions;
  #state: "outside" | "inside" | "left" = "outside";
  #fails = false;
  /** Revisions of the schema just before the lease was taken. */
  #revisions: AppliedRevisions = new Map();

  constructor(options: HostLeaseOptions) {
    this.#options = options;
  }

  /** Takes the lease, or renews it. Answers how many milliseconds later that is due again. Never rejects. */
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

  /** Has what hosts that are gone have left looked for once more: one that had stalled may have taken something after it was taken out. */
  async lookForGone(): Promise<void> {
    if (this.#state === "inside") await this.#options.onGone();
  }

  /** Gives the lease back: who comes next need not wait for its end. */
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
    // Before the write: if this read fails, the lease is not taken yet, and the next try still looks for hosts that are gone.
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
