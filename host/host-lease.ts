import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import { SvcError } from "../bus/errors.ts";
import type { RepeatedTask } from "../bus/task-declaration.ts";
import type { Row } from "../storage/store/statements.ts";
import type { Scope, WriteOp } from "../storage/store/store.ts";
import {
  anyTime,
  type ClusterRow,
  type ExpectedTime,
  enterHostOps,
  expireHostsOps,
  type HostCard,
  type HostMode,
  hostExists,
  lapseOtherModeOp,
  lapseOthersOp,
  leaveHostOps,
  leavingHostOps,
  readClusterOp,
  renewHostOp,
} from "../storage/tables/hosts.ts";
import { type AppliedRevisions, appliedRevisions, wentBack } from "../storage/tables/schema-revisions.ts";

/** Lifetime of the host's lease, and the interval of renewals. */
export const leaseMs = 3_000;
const renewMs = 1_000;
/** Lifetime for a host that needs no renewal, because no other host can observe its expiry. */
const foreverMs = 100 * 365 * 86_400_000;
const idleMs = 3_600_000;
/** A difference between the store's clock and the monotonic clock from one renewal to the next that is a jump. */
const jumpMs = 1_000;
/** A host of the other mode that has ended without leaving is gone after this time. */
const entryMsMax = leaseMs + 1_000;
const entryAgainMs = 250;

/** How a process takes part as a host. */
export interface HostLeaseOptions {
  readonly env: Env;
  readonly store: Scope;
  /** Unique id of this process. */
  readonly host: string;
  /** `alone`: the database or its directory belongs to this process. */
  readonly mode: HostMode;
  /** The description of the host for the others; null for none. */
  readonly card: HostCard | null;
  /** True if this process holds an exclusive lock on the database or its directory, so that every other host of its mode is gone. */
  readonly locked: boolean;
  /** Time for other hosts to renew their leases after this host was outside or away, because all may have been cut off. */
  readonly patienceMs: number;
  /** True if other hosts can observe the expiry. An embedded database is locked by its process and needs no renewal. */
  readonly renewed: boolean;
  readonly log: Logger;
  /** Cleans up the work of hosts that are gone or may be. Awaited when the lease is taken. */
  readonly onGone: () => Promise<void>;
  /** Another host has declared this one gone, or this host may not enter: the process must end. */
  readonly onLost: (error: Error) => void;
  /** In mode `cluster`, called with the row of the cluster after each renewal. Awaited before `onGone`. */
  readonly onCluster?: (row: ClusterRow) => Promise<void>;
}

/** Takes, renews and releases the lease of this process, and removes hosts whose lease expired. */
export class HostLease {
  readonly #options: HostLeaseOptions;
  #state: "outside" | "inside" | "left" = "outside";
  #fails = false;
  /** The lease is valid until then by the monotonic clock; counted from before the renewal was sent. */
  #validUntil = 0;
  /** No other host is removed before then. */
  #removesFrom = 0;
  /** The store's clock at the last renewal, and the monotonic clock at that time; null before the first. */
  #clock: { readonly store: number; readonly at: number } | null = null;
  /** The use of the last view. A slow one delays no renewal. */
  #viewing: Promise<void> | null = null;
  #hasView = false;
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
      else if (this.#state === "inside" && (await this.#renew())) void this.#options.onGone();
      this.#fails = false;
    } catch (error) {
      if (SvcError.from(error).code === "conflict" && (await this.#isRefused())) {
        if (this.#state !== "left") onLost(this.#state === "inside" ? await this.#whyLost() : this.#whyRefused());
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

  /** Tells the other hosts that this one takes no more work. */
  async announceEnd(): Promise<void> {
    const { store, host, mode, log } = this.#options;
    if (this.#state !== "inside" || mode === "alone") return;
    await store.write(leavingHostOps(store, host), leaseMs).catch((error: unknown) => {
      log.warn({ err: error }, "the other hosts could not be told that this one drains");
    });
  }

  /** Releases the lease, so that the next host need not wait for its expiry. */
  async leave(): Promise<void> {
    const { store, host, log } = this.#options;
    if (this.#state !== "inside") return;
    this.#state = "left";
    await store.write(leaveHostOps(store, host), leaseMs).catch((error: unknown) => {
      log.warn({ err: error }, "the lease of this host could not be released");
    });
  }

  async #enter(): Promise<void> {
    const { env, store, host, mode, card, locked, patienceMs, renewed, onGone } = this.#options;
    // Read before the write: if this read fails, the lease is not taken, and the next attempt still removes gone hosts.
    this.#revisions = await appliedRevisions(store);
    const enter = enterHostOps(store, { id: host, mode, card }, renewed ? leaseMs : foreverMs);
    const gone = locked ? [lapseOthersOp(store, host, mode)] : [];
    const startedAt = env.monotonic();
    for (let others: WriteOp[] = []; ; others = [lapseOtherModeOp(store, mode)]) {
      try {
        const sentAt = env.monotonic();
        await store.write([...others, ...gone, ...enter], leaseMs);
        this.#validUntil = sentAt + leaseMs;
        break;
      } catch (error) {
        const isOver = env.monotonic() - startedAt > entryMsMax;
        if (!renewed || isOver || SvcError.from(error).code !== "conflict") throw error;
        await new Promise<void>((resolve) => env.timer(entryAgainMs, resolve));
      }
    }
    // All leases may have ended while the database was away: the other hosts get the time to renew theirs.
    if (mode === "cluster") this.#removesFrom = env.monotonic() + patienceMs;
    this.#state = "inside";
    if (mode === "cluster") await this.#renew();
    await onGone();
  }

  /** False after a conflict with other transactions alone, such as a deadlock: only a host whose row is gone is lost. */
  async #isRefused(): Promise<boolean> {
    const { store, host } = this.#options;
    return this.#state !== "inside" || !(await hostExists(store, host).catch(() => true));
  }

  #whyRefused(): Error {
    return new Error(
      this.#options.mode === "alone"
        ? "hosts of a cluster use this database; to join them set SVC_REDIS_URL and SVC_CLUSTER_KEY as they do"
        : "an svc process outside a cluster uses this database; set SVC_REDIS_URL and SVC_CLUSTER_KEY for it too, and restart it",
    );
  }

  async #whyLost(): Promise<Error> {
    const revisions = await appliedRevisions(this.#options.store).catch(() => this.#revisions);
    return new Error(
      wentBack(this.#revisions, revisions)
        ? "the database schema was migrated down while this process ran, and the lease of this host is lost; restart the process"
        : "another host has declared this one dead",
    );
  }

  /** Returns true if another host was removed. */
  async #renew(): Promise<boolean> {
    const { env, store, host, mode, patienceMs, renewed } = this.#options;
    if (!renewed) return false;
    // A host that is alone has the lock of the database, so there is no other to remove or to see.
    if (mode === "alone") {
      await store.write([renewHostOp(store, host, leaseMs)], leaseMs);
      return false;
    }
    const sentAt = env.monotonic();
    // If this lease has ended, so may all others have: the database was away.
    if (sentAt > this.#validUntil) this.#removesFrom = sentAt + patienceMs;
    const expected = this.#expectedTime(sentAt);
    const removes = sentAt >= this.#removesFrom;
    const ops = [renewHostOp(store, host, leaseMs), ...(removes ? expireHostsOps(store, expected) : [])];
    const answers = await store.write([...ops, readClusterOp(store)], leaseMs);
    this.#validUntil = sentAt + leaseMs;
    const row = (answers.at(-1) as Row[])[0] as unknown as ClusterRow;
    const now = Number(row.now);
    // After a jump of the store's clock the others get the time to renew their leases by it.
    if (now < expected.from || now > expected.to) this.#removesFrom = env.monotonic() + patienceMs;
    this.#clock = { store: now, at: env.monotonic() };
    await this.#view(row);
    return removes && (answers[0] as Row[]).length > 0;
  }

  /** The times that the store's clock may show in a batch that is sent now, if it has not jumped. */
  #expectedTime(sentAt: number): ExpectedTime {
    if (this.#clock === null) return anyTime;
    const now = this.#clock.store + sentAt - this.#clock.at;
    return { from: Math.floor(now - jumpMs), to: Math.ceil(now + leaseMs + jumpMs) };
  }

  /** Passes the row of the cluster on. Waits for that when the lease is taken, and otherwise not. */
  async #view(row: ClusterRow): Promise<void> {
    const { onCluster, log } = this.#options;
    if (onCluster === undefined || this.#viewing !== null) return;
    const viewing = onCluster(row).finally(() => {
      this.#viewing = null;
    });
    this.#viewing = viewing;
    if (!this.#hasView) await viewing;
    else viewing.catch((error: unknown) => log.warn({ err: error }, "the list of hosts could not be read"));
    this.#hasView = true;
  }
}

/** Interval of the cleanup for gone hosts. */
const goneMs = 60_000;

interface LeaseTaskDeps {
  readonly lease: HostLease;
}

/** Keeps the lease of the process until it has drained. */
export const leaseTask: RepeatedTask<LeaseTaskDeps> = {
  name: "host_lease",
  of: "process",
  whileDraining: true,
  run: ({ lease }) => lease.keep(),
};

/** Ends what gone hosts have left. */
export const goneHostsTask: RepeatedTask<LeaseTaskDeps> = {
  name: "abandoned_runs",
  of: "process",
  async run({ lease }, { isFirst }) {
    // The start of the process has already cleaned up.
    if (!isFirst) await lease.lookForGone();
    return goneMs;
  },
};
