import { deliveryAddress, durableAddress, publicThread, runAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { Env } from "../../../bus/env.ts";
import type { RunPlace } from "../../../bus/protocol/run.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import { deliverySource, runRecord } from "../../../storage/frames/run-record.ts";
import type { TenantStore, WriteOp } from "../../../storage/store/store.ts";
import { backOffMs } from "../../../storage/tables/back-off.ts";
import { outboxOps } from "../../../storage/tables/deliveries.ts";
import {
  type DurableRunRow,
  endDurableOp,
  putOffDurableOp,
  renewedUntil,
  stepDurableOp,
  suspendDurableOp,
} from "../../../storage/tables/durable-rows.ts";
import { expireKeyOp } from "../../../storage/tables/idempotency.ts";
import { leaveBudgetOps } from "../../../storage/tables/run-budgets.ts";
import type { RunSpent } from "../../../storage/tables/run-columns.ts";
import { type RunRow, spentOp } from "../../../storage/tables/runs.ts";
import { answerTaskOp, type WaitedTask, waitingForTask } from "../../../storage/tables/task-waits.ts";
import { keyExpiresAt } from "../../log/earlier-answer.ts";
import type { LogEntry } from "../../log/entry.ts";

/** The status and the result with which a durable run ends. */
export interface DurableEnding {
  readonly status: "completed" | "failed" | "expired" | "dead";
  readonly final: string | null;
  readonly error: string | null;
}

/** The columns that a live durable run reads from its own row. */
type StoredRow = Pick<DurableRunRow, "attempts" | "accepted_at" | "ttl_ms" | "expires_at">;

interface DurableRunDeps {
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly host: string;
  readonly env: Env;
  readonly settings: Pick<Settings, "idempotencyTtlSeconds">;
}

/** The durable part of a run. It returns the statements that store the run's progress, so that another process can resume the run. */
export class DurableRun {
  readonly place: RunPlace;
  /** Consecutive failures of the current step. */
  attempts: number;
  readonly #row: RunRow;
  readonly #stored: StoredRow;
  readonly #activeBefore: number;
  readonly #takenAt: number;
  readonly #store: TenantStore;
  readonly #bus: Bus;
  readonly #host: string;
  readonly #env: Env;
  readonly #settings: DurableRunDeps["settings"];
  /** Reads the current usage of the run. Null for a run that ends without being resumed. */
  #spent: (() => RunSpent) | null = null;
  /** The usage at the last write; null before the first one. */
  #written: RunSpent | null;
  #isCut = false;
  #isDraining = false;
  #hasSlot: boolean;
  #givesWay = false;

  constructor(row: RunRow, place: RunPlace, stored: StoredRow, deps: DurableRunDeps, hasSlot: boolean) {
    this.#hasSlot = hasSlot;
    this.place = place;
    this.attempts = stored.attempts;
    this.#row = row;
    this.#stored = stored;
    this.#activeBefore = row.spent?.active_ms ?? 0;
    this.#written = row.spent ?? row.asked.requeued?.spent ?? null;
    this.#env = deps.env;
    this.#takenAt = deps.env.monotonic();
    this.#store = deps.store;
    this.#bus = deps.bus;
    this.#host = deps.host;
    this.#settings = deps.settings;
  }

  /** Sets the function that reads the current usage of the run. */
  bind(spent: () => RunSpent): void {
    this.#spent = spent;
  }

  /** The start of the run's active time on the monotonic clock. Time in which the run was suspended is left out. */
  get startedAt(): number {
    return this.#env.monotonic() - this.activeMs;
  }

  /** Milliseconds in which the run was active, those before earlier suspensions included. */
  get activeMs(): number {
    return Math.round(this.#activeBefore + this.#env.monotonic() - this.#takenAt);
  }

  /** True once the process shuts down or has lost the thread. From then on only usage is written, and another process resumes the run. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** True if the run suspends only to free its slot for other runs. */
  get givesWay(): boolean {
    return this.#givesWay;
  }

  /** True while the run holds a slot of its host. A run that only grants reservations to a task holds none. */
  get hasSlot(): boolean {
    return this.#hasSlot;
  }

  cut(): void {
    this.#isCut = true;
  }

  /** Suspends the run after its current step, because the process shuts down. */
  drain(): void {
    this.#isDraining = true;
  }

  /**
   * Returns the statements to commit with log entries. A model reply or a tool result completes a step, which is not repeated after a
   * crash.
   */
  opsWith(entries: readonly LogEntry[]): readonly WriteOp[] {
    const { run_id } = this.place;
    if (entries.some(isStep)) {
      this.attempts = 0;
      return [...this.spentOps(), stepDurableOp(this.#store, run_id)];
    }
    return entries.some(({ kind }) => kind === "tool_call") ? this.spentOps() : [];
  }

  /** Statements that store the current usage. */
  spentOps(): WriteOp[] {
    if (this.#spent === null) return [];
    this.#written = this.#spent();
    return [spentOp(this.#store, this.#row.run_key, this.#written)];
  }

  /** Statements for a step that was cut off. They add its tokens and cost to the stored usage; the step itself is repeated. */
  cutOps(): WriteOp[] {
    if (this.#spent === null) return [];
    const { input_tokens, output_tokens, cost_usd, usage } = this.#spent();
    const used = { input_tokens, output_tokens, cost_usd, usage, active_ms: this.activeMs };
    return [spentOp(this.#store, this.#row.run_key, { tool_calls: 0, ...this.#written, ...used })];
  }

  /** True if the run may begin another step now. A task of a parent with a slot needs no slot of its own. */
  async mayStep(): Promise<boolean> {
    if (!this.#isDraining && !this.#hasSlot && this.#row.asked.parent?.durable !== undefined) return true;
    if (!this.#isDraining) {
      // Without an answer from the slot actor the run continues: slots limit load, not correctness.
      const { go } = await this.#bus.ask(durableAddress(this.#host), "step", this.place).catch(() => ({ go: true }));
      if (go) this.#hasSlot = true;
      if (go && !this.#isDraining) return true;
    }
    this.#givesWay = true;
    return false;
  }

  /** Statements that suspend the run: until an outside answer arrives, or only until a slot is free again. */
  suspendOps(): WriteOp[] {
    const { run_id } = this.place;
    return [this.#givesWay ? putOffDurableOp(this.#store, run_id, 0, false) : suspendDurableOp(this.#store, run_id)];
  }

  /** The delay before a failed step is tried again. */
  get backOffMs(): number {
    return backOffMs(this.attempts + 1);
  }

  /** Statements that put off the step by `backOffMs`, after a failure if `isFailed`. */
  putOffOps(isFailed: boolean): WriteOp[] {
    return [putOffDurableOp(this.#store, this.place.run_id, this.backOffMs, isFailed)];
  }

  /** Statements that end the run, expire its idempotency key and add its webhooks to the outbox. */
  endOps({ status, final, error }: DurableEnding): WriteOp[] {
    const { tenant_id, suffix, run_id } = this.place;
    // An end after work renews the expiry time, as every step does. An end without work keeps it.
    const expires_at = this.#spent === null ? this.#stored.expires_at : renewedUntil(this.#env.now(), this.#stored);
    const { idempotency_scope: key } = this.#row;
    const ops = [
      ...this.spentOps(),
      endDurableOp(this.#store, run_id, { final, error, expires_at }),
      ...(key === null ? [] : [expireKeyOp(this.#store, key, run_id, keyExpiresAt(this.#env.now(), this.#settings))]),
    ];
    const endpoints = this.#endpoints;
    if (endpoints.length === 0) return ops;
    const type = `run.${status}`;
    const run = runRecord({ ...this.#row, status }, { run_id, expires_at, final, error }, {});
    const body = JSON.stringify({ type, tenant_id, thread_id: publicThread(tenant_id, suffix), run });
    return [...ops, ...outboxOps(this.#store, { source: deliverySource(run_id), type, body, endpoints })];
  }

  /** Statements for a run that was ended from outside: they answer the parent's wait for this task and release its budget rows. */
  leaveOps(): WriteOp[] {
    const { parent } = this.#row.asked;
    const answers = parent === undefined ? [] : [answerTaskOp(this.#store, parent)];
    return [...answers, ...leaveBudgetOps(this.#store, this.place.run_id)];
  }

  /** Notifies waiting parent runs and the delivery actors. Call it after the batch with the end has committed. */
  announceEnd(): void {
    const { parent } = this.#row.asked;
    if (parent !== undefined) void this.#tellWaiting(parent).catch(() => {});
    for (const id of this.#endpoints) this.#bus.tell(deliveryAddress(this.place.tenant_id, id), "wake", {});
  }

  async #tellWaiting(task: WaitedTask): Promise<void> {
    const { tenant_id } = this.place;
    for (const { suffix, run_id } of await waitingForTask(this.#store, task))
      this.#bus.tell(runAddress(tenant_id, suffix, run_id), "resume", { due: false });
  }

  get #endpoints(): readonly string[] {
    return this.#row.asked.durable?.webhooks ?? [];
  }
}

function isStep({ kind, extra }: LogEntry): boolean {
  return kind === "message" || kind === "tool_result" || extra?.metadata?.type === "member";
}
