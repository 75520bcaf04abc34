import { runAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import { splitNodeId } from "../../bus/protocol/node-id.ts";
import type { RunPlace } from "../../bus/protocol/run.ts";
import type { Metrics } from "../../governance/metrics.ts";
import type { Scope } from "../../storage/store/store.ts";
import { dueDurables, expiredDurables } from "../../storage/tables/durable-rows.ts";

// Durable runs wait here for a slot, those of one tenant in the order in which they have become due. A slot goes to the tenant with
// the fewest runs at work, so that one with ten thousand of them keeps nobody waiting for longer than a step. All of this may be
// forgotten: the store says which runs are due, and a run that was not told of is found when it is looked for.

/** Rows that are read at once. */
const pageRows = 500;
/** How far back it is looked for runs that have become due: what was being written then may have been seen by nobody. */
const overlapMs = 5_000;
/** How long a run is left alone that could not be taken up. */
const againMs = 1_000;

/** How long a run may need to be taken up before it is asked whether it is at work. */
const settledMs = 10_000;

/** How it came to be known that a run is due: who made it so has told it, or it was found in the store. */
type WokenBy = "hint" | "poll";

/** A run that is due, and since when that is known, on the monotonic clock. */
interface DueRun {
  readonly place: RunPlace;
  readonly by: WokenBy;
  readonly since: number;
}

/** What waits of one tenant. */
interface TenantQueue {
  /** By run. */
  readonly waiting: Map<string, DueRun>;
  atWork: number;
}

/** The slots of one host, and the queue of runs that wait for one. */
export class RunScheduler {
  readonly #bus: Bus;
  readonly #env: Env;
  readonly #store: Scope;
  readonly #scheduler: number;
  readonly #metrics: Metrics;
  readonly #queues = new Map<string, TenantQueue>();
  /** Runs that have a slot, and since when, on the monotonic clock. */
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

  /** A run is due. */
  add(place: RunPlace, by: WokenBy): void {
    if (this.#isDraining || this.#atWork.has(place.run_id)) return;
    const { waiting } = this.#queueOf(place.tenant_id);
    if (!waiting.has(place.run_id)) waiting.set(place.run_id, { place, by, since: this.#env.monotonic() });
    this.#serve();
  }

  /**
   * Whether a run may begin another step; it is put aside where a tenant waits that has fewer runs at work. One without a slot, as it was
   * taken up only to lend to a task, gets one if there is one.
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

  /** Gives a run that is about to be accepted a slot, where one is free: who waits for one has had it by then. */
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

  /** A run has no use for its slot any more. */
  free({ tenant_id, run_id }: RunPlace): void {
    if (!this.#atWork.delete(run_id)) return;
    const queue = this.#queueOf(tenant_id);
    queue.atWork--;
    this.#tidy(tenant_id, queue);
    this.#serve();
  }

  /** Looks for runs that are due; for those since the last time, or for `all`. Takes slots back of runs that are gone. */
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

  /** Whether a run lives on this host: another one has slots for its own. */
  #isOwn(place: RunPlace): boolean {
    const { node } = this.#bus;
    return splitNodeId(this.#bus.nodeOf(addressOf(place))).host === splitNodeId(node).host;
  }

  /** The process is about to end: nothing more is taken up, and runs are put aside behind their steps. */
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
        // It has moved since, and is found there.
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
      const { taken } = await this.#bus.ask(addressOf(place), "work", {});
      if (!taken) this.free(place);
      else this.#metrics.observe("svc_durable_claim_seconds", { by }, (this.#env.monotonic() - since) / 1000);
    } catch {
      // Its thread or the store is away: it is due as before.
      this.free(place);
      this.#env.timer(againMs, () => this.add(place, by));
    }
  }

  /** What was told of a run that has left may have been lost, and so may the run with its thread. */
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
