import { nodeAddress, runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { splitNodeId } from "../../bus/protocol/node-id.ts";
import type { RunPlace } from "../../bus/protocol/run.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Scope } from "../../storage/store/store.ts";
import { dueDurables, expiredDurables } from "../../storage/tables/durable-sweeps.ts";
import { loanOf } from "../runtime/borrowed-threads.ts";

// Durable runs wait here for a slot; the runs of one tenant in the order in which they became due. A free slot goes to the
// tenant with the fewest active runs, so that a large backlog of one tenant delays others by at most one step. The state is a
// cache: the store records which runs are due, and polling finds runs whose wake-up message was lost.

/** Rows per page. */
const pageRows = 500;
/** Polling overlaps the last poll by this time, because a transaction may commit a due time that is already past. */
const overlapMs = 5_000;
/** Pause before a run that could not be resumed is tried again. */
const againMs = 1_000;

/** Grace period for a run to resume before its thread is asked whether it is active. */
const settledMs = 10_000;

/** How a due run was found: by a wake-up message or by polling the store. */
type WokenBy = "hint" | "poll";

/** A due run, and when it was found, on the monotonic clock. */
interface DueRun {
  readonly place: RunPlace;
  readonly by: WokenBy;
  readonly since: number;
}

/** The runs of one tenant. */
interface TenantQueue {
  /** By run id. */
  readonly waiting: Map<string, DueRun>;
  atWork: number;
}

/** The slots of one host and its queue. */
export class RunScheduler {
  readonly #bus: Bus;
  readonly #env: Env;
  readonly #store: Scope;
  readonly #scheduler: number;
  readonly #metrics: Metrics;
  readonly #queues = new Map<string, TenantQueue>();
  /** Runs that hold a slot, and since when, on the monotonic clock. */
  readonly #atWork = new Map<string, { readonly place: RunPlace; readonly since: number }>();
  #seenUntil = 0;
  #isDraining = false;

  constructor(bus: Bus, env: Env, store: Scope, scheduler: number, metrics: Metrics) {
    this.#bus = bus;
    this.#env = env;
    this.#store = store;
    this.#scheduler = scheduler;
    this.#metrics = metrics;
  }

  get isIdle(): boolean {
    return this.#atWork.size === 0 && this.#queues.size === 0;
  }

  /** Queues a due run. */
  add(place: RunPlace, by: WokenBy): void {
    if (this.#isDraining || this.#atWork.has(place.run_id)) return;
    const { waiting } = this.#queueOf(place.tenant_id);
    if (!waiting.has(place.run_id)) waiting.set(place.run_id, { place, by, since: this.#env.monotonic() });
    this.#serve();
  }

  /**
   * True if a run may begin another step. False suspends it, if all slots are taken and a waiting tenant has fewer active runs.
   * A run without a slot (it was resumed only to share its budget with a task) takes one if one is free.
   */
  mayStep(place: RunPlace): boolean {
    if (this.#isDraining) return false;
    const { tenant_id, run_id } = place;
    if (!this.#atWork.has(run_id)) return this.#takeFree(place);
    const own = this.#queues.get(tenant_id)?.atWork ?? 0;
    if (this.#atWork.size < this.#scheduler) return true;
    for (const { waiting, atWork } of this.#queues.values()) if (waiting.size > 0 && atWork < own) return false;
    return true;
  }

  /** Gives a slot to a run that is about to be accepted, if one is free; waiting runs have been served by then. */
  mayBegin(place: RunPlace): boolean {
    if (this.#isDraining) return false;
    const go = this.#takeFree(place);
    if (go) this.#metrics.observe("svc_durable_claim_seconds", { by: "hint" }, 0);
    return go;
  }

  #takeFree(place: RunPlace): boolean {
    if (this.#atWork.size >= this.#scheduler) return false;
    this.#atWork.set(place.run_id, { place, since: this.#env.monotonic() });
    this.#queueOf(place.tenant_id).atWork++;
    return true;
  }

  /** Frees the slot of a run. */
  free({ tenant_id, run_id }: RunPlace): void {
    if (!this.#atWork.delete(run_id)) return;
    const queue = this.#queueOf(tenant_id);
    queue.atWork--;
    this.#tidy(tenant_id, queue);
    this.#serve();
  }

  /** Polls for due runs: those since the last poll, or all. Also frees the slots of runs that no longer exist. */
  async look(all: boolean): Promise<void> {
    if (this.#isDraining) return;
    await this.#takeBack();
    for (const place of await expiredDurables(this.#store, pageRows)) this.#found(place);
    let after = { wake_at: all ? -1 : this.#seenUntil - overlapMs, run_id: "" };
    for (;;) {
      const page = await dueDurables(this.#store, after, pageRows);
      for (const { tenant_id, suffix, run_id } of page) this.#found({ tenant_id, suffix, run_id });
      const last = page.at(-1);
      if (last === undefined) return;
      this.#seenUntil = Math.max(this.#seenUntil, last.wake_at);
      if (page.length < pageRows) return;
      after = { wake_at: last.wake_at, run_id: last.run_id };
    }
  }

  #found(place: RunPlace): void {
    if (this.#isOwn(place)) this.add(place, "poll");
  }

  /** True if the run works on this host. Other hosts manage their own slots. */
  #isOwn(place: RunPlace): boolean {
    const node = this.#bus.workNodeOf(addressOf(place));
    return node !== null && splitNodeId(node).host === splitNodeId(this.#bus.node).host;
  }

  /** The process is stopping: no run is resumed, and active runs are suspended after their current step. */
  drain(): void {
    this.#isDraining = true;
    for (const queue of this.#queues.values()) queue.waiting.clear();
  }

  #serve(): void {
    while (!this.#isDraining && this.#atWork.size < this.#scheduler) {
      let next: TenantQueue | null = null;
      for (const queue of this.#queues.values())
        if (queue.waiting.size > 0 && (next === null || queue.atWork < next.atWork)) next = queue;
      const due = next?.waiting.values().next().value;
      if (next === null || due === undefined) return;
      const { place } = due;
      next.waiting.delete(place.run_id);
      if (!this.#isOwn(place)) {
        // The run has moved to another host, which finds it.
        this.#tidy(place.tenant_id, next);
        continue;
      }
      next.atWork++;
      this.#atWork.set(place.run_id, { place, since: this.#env.monotonic() });
      void this.#work(due);
    }
  }

  async #work({ place, by, since }: DueRun): Promise<void> {
    try {
      const taken = await this.#take(place);
      if (!taken) this.free(place);
      else this.#metrics.observe("svc_durable_claim_seconds", { by }, (this.#env.monotonic() - since) / 1000);
    } catch {
      // The run's thread or the store is unavailable, so the run is still due.
      this.free(place);
      this.#env.timer(againMs, () => this.add(place, by));
    }
  }

  /** Makes the run work. Takes its thread to this host first, if that has another home. */
  async #take(place: RunPlace): Promise<boolean> {
    const address = addressOf(place);
    const node = this.#bus.workNodeOf(address);
    if (node === null || node === this.#bus.homeOf(address)) return (await this.#bus.ask(address, "work", {})).taken;
    const loan = loanOf(place.tenant_id, place.suffix, place.run_id);
    const { borrowed } = await this.#bus.ask(nodeAddress(node), "borrow", loan);
    if (!borrowed) throw new SvcError("actor_lost");
    this.#bus.livesAt(address, node);
    try {
      return (await this.#bus.ask(address, "work", {})).taken;
    } finally {
      this.#bus.tell(nodeAddress(node), "settled", { thread: loan.thread });
    }
  }

  /** Frees the slots of runs that are not active: the message about their end may have been lost, or their thread died. */
  async #takeBack(): Promise<void> {
    const until = this.#env.monotonic() - settledMs;
    await Promise.all(
      [...this.#atWork.values()].map(async (taken) => {
        const { place, since } = taken;
        if (since > until) return;
        const { runs } = await this.#bus.ask(addressOf(place), "alive", {}).catch(() => ({ runs: false }));
        if (!runs && this.#atWork.get(place.run_id) === taken) this.free(place);
      }),
    );
  }

  #queueOf(tenantId: string): TenantQueue {
    let queue = this.#queues.get(tenantId);
    if (queue === undefined) {
      queue = { waiting: new Map(), atWork: 0 };
      this.#queues.set(tenantId, queue);
    }
    return queue;
  }

  #tidy(tenantId: string, { waiting, atWork }: TenantQueue): void {
    if (waiting.size === 0 && atWork <= 0) this.#queues.delete(tenantId);
  }
}

function addressOf({ tenant_id, suffix, run_id }: RunPlace) {
  return runAddress(tenant_id, suffix, run_id);
}
