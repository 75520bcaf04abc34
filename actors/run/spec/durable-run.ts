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
import { type RunRow, type RunSpent, spentOp } from "../../../storage/tables/runs.ts";
import { answerTaskOp, type WaitedTask, waitingForTask } from "../../../storage/tables/task-waits.ts";
import { keyExpiresAt } from "../../log/earlier-answer.ts";
import type { LogEntry } from "../../log/entry.ts";

/** How a durable run ends. */
export interface DurableEnding {
  readonly status: "completed" | "failed" | "expired" | "dead";
  readonly final: string | null;
  readonly error: string | null;
}

/** What it needs of its own row. */
type StoredRow = Pick<DurableRunRow, "attempts" | "accepted_at" | "ttl_ms" | "expires_at">;

interface DurableRunDeps {
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly host: string;
  readonly env: Env;
  readonly settings: Pick<Settings, "idempotencyTtlSeconds">;
}

/** What a durable run does besides: it says where it is with everything that it writes, so that another process goes on from there. */
export class DurableRun {
  readonly place: RunPlace;
  /** Failures of the current step. */
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
  /** Null for a run that ends before it goes on. */
  #spent: (() => RunSpent) | null = null;
  /** What the run had used as that was last written; null for nothing. */
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

  /** Says where the run gets what it has used. */
  bind(spent: () => RunSpent): void {
    this.#spent = spent;
  }

  /** From when its time counts, on the monotonic clock: what it has not been at work does not. */
  get startedAt(): number {
    return this.#env.monotonic() - this.activeMs;
  }

  /** Milliseconds that it has been at work. */
  get activeMs(): number {
    return Math.round(this.#activeBefore + this.#env.monotonic() - this.#takenAt);
  }

  /** The process is about to end, or has lost its thread: nothing is written any more but what was used, and another goes on. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether it is put aside only to let others go first. */
  get givesWay(): boolean {
    return this.#givesWay;
  }

  /** Whether it has one of the slots: not while it does nothing but lend to a task. */
  get hasSlot(): boolean {
    return this.#hasSlot;
  }

  cut(): void {
    this.#isCut = true;
  }

  /** The process is about to end: the run is put aside behind its present step. */
  drain(): void {
    this.#isDraining = true;
  }

  /** What goes with entries. A model's answer or a tool's result is a step that need not be done again. */
  opsWith(entries: readonly LogEntry[]): readonly WriteOp[] {
    const { run_id } = this.place;
    if (entries.some(isStep)) {
      this.attempts = 0;
      return [...this.spentOps(), stepDurableOp(this.#store, run_id)];
    }
    return entries.some(({ kind }) => kind === "tool_call") ? this.spentOps() : [];
  }

  /** What says what the run has used by now. */
  spentOps(): WriteOp[] {
    if (this.#spent === null) return [];
    this.#written = this.#spent();
    return [spentOp(this.#store, this.#row.run_key, this.#written)];
  }

  /** What says of a step that was cut off what it has used; all else is as it was before the step, which is made again. */
  cutOps(): WriteOp[] {
    if (this.#spent === null) return [];
    const { input_tokens, output_tokens, cost_usd, usage } = this.#spent();
    const used = { input_tokens, output_tokens, cost_usd, usage, active_ms: this.activeMs };
    return [spentOp(this.#store, this.#row.run_key, { tool_calls: 0, ...this.#written, ...used })];
  }

  /** Whether another step may be begun now. A task that was begun by a run with a slot needs none of its own. */
  async mayStep(): Promise<boolean> {
    if (!this.#isDraining && !this.#hasSlot && this.#row.asked.parent?.durable !== undefined) return true;
    if (!this.#isDraining) {
      // Where nobody keeps count, nobody waits.
      const { go } = await this.#bus.ask(durableAddress(this.#host), "step", this.place).catch(() => ({ go: true }));
      if (go) this.#hasSlot = true;
      if (go && !this.#isDraining) return true;
    }
    this.#givesWay = true;
    return false;
  }

  /** What puts the run aside: until somebody outside has answered, or only to let others go first. */
  suspendOps(): WriteOp[] {
    const { run_id } = this.place;
    return [this.#givesWay ? putOffDurableOp(this.#store, run_id, 0, false) : suspendDurableOp(this.#store, run_id)];
  }

  /** How long a step is put off that has failed once more. */
  get backOffMs(): number {
    return backOffMs(this.attempts + 1);
  }

  /** What puts the run aside for that. */
  putOffOps(): WriteOp[] {
    return [putOffDurableOp(this.#store, this.place.run_id, this.backOffMs, true)];
  }

  /** What ends the run, and tells those who are to hear of it. */
  endOps({ status, final, error }: DurableEnding): WriteOp[] {
    const { tenant_id, suffix, run_id } = this.place;
    // Its answer is a step too; what ends without one has no more time than it had.
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

  /** What says that a run which has ended before it could say so itself was a task, and spends nothing any more. */
  leaveOps(): WriteOp[] {
    const { parent } = this.#row.asked;
    const told = parent === undefined ? [] : [answerTaskOp(this.#store, parent)];
    return [...told, ...leaveBudgetOps(this.#store, this.place.run_id)];
  }

  /** The end is written: whoever waits for it, or is to send word of it, looks at once. */
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
