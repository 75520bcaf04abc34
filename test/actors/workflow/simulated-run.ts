import { isDeepStrictEqual } from "node:util";
import type { ActorContext } from "../../../actors/runtime/define.ts";
import { beginRun } from "../../../actors/workflow/begin-run.ts";
import type { WorkflowDeps } from "../../../actors/workflow/deps.ts";
import { isOver, unitKey } from "../../../actors/workflow/draft.ts";
import { builtInKinds } from "../../../actors/workflow/kinds/built-in.ts";
import { loadProgress } from "../../../actors/workflow/load-progress.ts";
import type { RunProgress } from "../../../actors/workflow/run-progress.ts";
import type { StepKind, Unit } from "../../../actors/workflow/step-kind.ts";
import { toJsonText } from "../../../bus/protocol/json-text.ts";
import { Type } from "../../../bus/type.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import type { Store, TenantStore, WriteOp } from "../../../storage/store/store.ts";
import {
  itemsOfStep,
  stepsOfRun,
  type WorkflowRunRow,
  type WorkflowStepRow,
  workflowRunById,
} from "../../../storage/tables/workflow-runs.ts";
import { saveWorkflow } from "../../../storage/tables/workflows.ts";

// Runs of workflows over a real store, with a simulated clock, simulated work and simulated kills. Work of the kind `work` has an id, outlives
// a kill like the run of an agent, and ends by the script of its step.

/** How the tries of a step or of an item end, in order; the last one repeats. */
export interface Script {
  readonly tries: readonly { readonly ok: boolean; readonly ms: number; readonly mayRetry: boolean }[];
}

/** Planted faults of a run. The checks of a test must find each of them. */
export interface Faults {
  /** Changes what the run works on, but not what the model expects. */
  readonly definition?: (definition: Document) => Document;
  readonly work?: (work: StepKind) => StepKind;
  readonly ops?: (ops: readonly WriteOp[], tenantId: string) => readonly WriteOp[];
}

export interface Document {
  readonly limits?: { readonly max_wall_clock_seconds: number };
  readonly steps: readonly Record<string, unknown>[];
  readonly outputs: Record<string, unknown>;
}

interface Child {
  readonly unit: Unit;
  readonly endsAt: number;
  readonly ok: boolean;
  readonly mayRetry: boolean;
  aborted: boolean;
}

/** A process that was killed does nothing any more. */
class Killed extends Error {}

/** One simulated run. */
export class SimulatedRun {
  static readonly runId = "0123456789abcdef0123456789abcdef";
  now = 1_000_000;
  /** The work that has begun, by its id. */
  readonly children = new Map<string, Child>();
  /** What happened, for checks: starts in their order, with the rows as they were stored then. */
  readonly starts: {
    readonly unit: Unit;
    readonly over: ReadonlySet<string>;
    readonly open: number;
    readonly at: number;
    readonly endsAt: number;
  }[] = [];
  writes = 0;
  /** Steps and items whose rows have changed after their end. */
  readonly changedAfterEnd: string[] = [];
  /** The rows of the steps and items as the last batch has stored them. Starts follow a batch, so they are checked against these rows. */
  #stored: ReadonlyMap<string, WorkflowStepRow> = new Map();
  /** Numbers of writes at which the process is killed, before or after the commit. */
  kills: ReadonlyMap<number, "before" | "after"> = new Map();
  cancelAt: number | null = null;
  /** Until this time no process has the plugin of the kind `work`. */
  missingUntil = 0;
  #hasWork = false;
  readonly #tenant: TenantStore;
  readonly #store: Store;
  readonly #document: Document;
  readonly #scripts: ReadonlyMap<string, Script>;
  readonly #faults: Faults;
  #progress: RunProgress | null = null;
  #generation = 0;

  constructor(
    store: Store,
    tenantId: string,
    document: Document,
    scripts: ReadonlyMap<string, Script>,
    faults: Faults = {},
  ) {
    this.#store = store;
    this.#tenant = store.tenant(tenantId);
    this.#document = document;
    this.#scripts = scripts;
    this.#faults = faults;
  }

  /** Timers that runs have set. */
  timers = 0;

  /** Begins runs of the workflow, and looks at each once. */
  async beginMany(count: number): Promise<void> {
    const { asked } = await this.#save();
    const { context } = this.#context();
    const begin = async (at: number): Promise<void> => {
      const id = at.toString(16).padStart(32, "0");
      await beginRun(this.#tenant, id, { ...asked, inputs: toJsonText({}) }, context);
      await (await loadProgress(this.#tenant, id, context))?.advance();
    };
    // Batches that are sent together share a commit.
    for (let from = 0; from < count; from += 100)
      await Promise.all(Array.from({ length: Math.min(100, count - from) }, (_, at) => begin(from + at)));
  }

  async #save() {
    const { definition: faulty = (document: Document) => document } = this.#faults;
    const definition = JSON.stringify(faulty(this.#document));
    const saver = { sub: "ann", scopes: [], scheme: "none", issuer: "" };
    const workflow = { id: "flow", name: "flow", description: "", definition, saver };
    await saveWorkflow(this.#tenant, undefined, workflow, { now: this.now, limit: 0, pinned: [], ops: [] });
    const principal = { tenant_id: this.#tenant.tenantId, sub: "ann", scopes: [], scheme: "none", issuer: "" };
    return { asked: { principal, workflow_id: "flow", revision: null, cause: "request" as const, taint: [] } };
  }

  /** Runs until the end. Returns the rows. */
  async run(): Promise<{ run: WorkflowRunRow; steps: WorkflowStepRow[] }> {
    const { asked } = await this.#save();
    await beginRun(this.#tenant, SimulatedRun.runId, { ...asked, inputs: toJsonText({}) }, this.#context().context);
    await this.#readStored();
    for (let look = 0; look < 2_000; look++) {
      await this.#look();
      const run = (await workflowRunById(this.#tenant, SimulatedRun.runId)) as WorkflowRunRow;
      if (run.finished_at !== null) return { run, steps: await stepsOfRun(this.#tenant, SimulatedRun.runId) };
      const ends = [...this.children.values()].map(({ endsAt }) => endsAt).filter((at) => at > this.now);
      const next = Math.min(
        run.wake_at ?? Number.POSITIVE_INFINITY,
        this.cancelAt ?? Number.POSITIVE_INFINITY,
        ...ends,
      );
      this.now = Math.max(this.now + 1, next);
    }
    throw new Error("the run does not end");
  }

  /** Looks at the run as the sweep does, and kills the process where the plan says so. */
  async #look(): Promise<void> {
    try {
      // A process with the plugin replaces one without it.
      if (!this.#hasWork && this.now >= this.missingUntil) this.#progress = null;
      if (this.#progress === null) {
        const { context, killed } = this.#context();
        this.#progress = await loadProgress(killed, SimulatedRun.runId, context);
      }
      if (this.#progress === null) return;
      const isCancelled = this.cancelAt !== null && this.now >= this.cancelAt;
      if (isCancelled) this.cancelAt = null;
      await (isCancelled ? this.#progress.cancel() : this.#progress.advance());
      for (const { unit, endsAt } of [...this.children.values()])
        if (endsAt <= this.now) await this.#progress?.ended(unit);
      if (this.#progress?.isStale) this.#progress = null;
    } catch (error) {
      this.#progress = null;
      if (!(error instanceof Killed)) throw error;
    }
  }

  /** Returns the context of a new process, and its store. */
  #context(): { readonly context: ActorContext<WorkflowDeps>; readonly killed: TenantStore } {
    const generation = ++this.#generation;
    const alive = () => generation === this.#generation;
    const { ops: faulty = (ops: readonly WriteOp[]) => ops } = this.#faults;
    const tenant = this.#tenant;
    const killed: TenantStore = {
      tenantId: tenant.tenantId,
      inOrder: tenant.inOrder,
      op: tenant.op.bind(tenant),
      read: tenant.read.bind(tenant),
      readLong: tenant.readLong.bind(tenant),
      write: async (ops: readonly WriteOp[]) => {
        const kill = this.kills.get(++this.writes);
        if (kill === "before") return this.#kill();
        const rows = await tenant.write(faulty(ops, tenant.tenantId));
        await this.#readStored();
        if (kill === "after") return this.#kill();
        return rows;
      },
    };
    const env = {
      ...{ now: () => this.now, monotonic: () => this.now, random: () => 0.5, id: () => "f".repeat(32) },
      defer: (work: () => void) => setImmediate(work),
      soon: queueMicrotask,
      timer: () => {
        this.timers++;
        return { cancel() {} };
      },
    };
    const work = this.#work(alive);
    this.#hasWork = this.now >= this.missingUntil;
    const kinds = [...builtInKinds, ...(this.#hasWork ? [this.#faults.work?.(work) ?? work] : [])];
    const context = {
      key: `${tenant.tenantId}/${SimulatedRun.runId}`,
      env,
      bus: { hasSubscribers: () => false, publish() {}, tell() {}, node: "sim/0" },
      deps: {
        store: this.#store,
        stepKinds: new Map(kinds.map((kind) => [kind.kind, kind])),
        metrics: { count() {} },
        mask: new SecretMask([]),
        access: { isRead: true, keysOf: () => [], signInOf: () => null },
        readAccess: async () => {},
        settings: { authMode: "none", authApiKeys: [], allowedTenants: [], triggers: [], tenantStoredBytes: 0 },
        log: { error: ({ err }: { err?: unknown }) => err instanceof Killed || this.defects.push(err), warn() {} },
      },
    } as unknown as ActorContext<WorkflowDeps>;
    return { context, killed };
  }

  /** Failures that the run has logged. */
  readonly defects: unknown[] = [];

  #kill(): never {
    this.#generation++;
    this.#progress = null;
    throw new Killed();
  }

  /** The simulated kind. Its work outlives the process. */
  #work(alive: () => boolean): StepKind {
    return {
      ...{ kind: "work", source: "builtin", description: "Simulated work.", isInner: true, inputs: null },
      config: Type.Object({}, { additionalProperties: true }),
      outputs: [{ name: "text", type: "text", required: true }],
      begin: ({ id }) => ({ kind: "pending", status: "running", due_at: this.now + 1_000, child_run_id: id }),
      started: async (unit) => {
        if (alive()) this.#start(unit);
      },
      look: async (unit) => {
        const child = this.children.get(unit.id);
        if (child === undefined) {
          this.#start(unit);
          return { kind: "pending", status: "running", due_at: this.now + 1_000 };
        }
        if (child.aborted) return { kind: "failed", error: "aborted", mayRetry: false };
        if (child.endsAt > this.now) return { kind: "pending", status: "running", due_at: child.endsAt };
        if (!child.ok) return { kind: "failed", error: "broken", mayRetry: child.mayRetry };
        return { kind: "done", output: { text: textOf(unit) }, taint: [] };
      },
      cancel: async ({ id }) => {
        const child = this.children.get(id);
        if (alive() && child !== undefined && child.endsAt > this.now) child.aborted = true;
      },
    };
  }

  #start(unit: Unit): void {
    if (this.children.has(unit.id)) return;
    const { tries } = this.#scripts.get(nameOf(unit)) ?? { tries: [{ ok: true, ms: 5, mayRetry: true }] };
    const { ok, ms, mayRetry } = tries[Math.min(unit.attempt, tries.length) - 1] as Script["tries"][number];
    const at = this.now;
    this.children.set(unit.id, { unit, endsAt: at + ms, ok, mayRetry, aborted: false });
    const over = [...this.#stored.values()].filter((row) => row.item < 0 && isOver(row)).map(({ step_id }) => step_id);
    const open = [...this.children.values()].filter(
      (child) => child.unit.step_id === unit.step_id && child.endsAt > this.now,
    );
    this.starts.push({ unit, over: new Set(over), open: open.length, at, endsAt: at + ms });
  }

  /** Reads the rows after a batch, and compares those of ended steps with the rows before. */
  async #readStored(): Promise<void> {
    const maps = this.#document.steps.filter(({ kind }) => kind === "map").map(({ id }) => String(id));
    const lists = [
      stepsOfRun(this.#tenant, SimulatedRun.runId),
      ...maps.map((id) => itemsOfStep(this.#tenant, SimulatedRun.runId, id)),
    ];
    const stored = new Map((await Promise.all(lists)).flat().map((row) => [unitKey(row), row]));
    for (const [key, row] of this.#stored)
      if (isOver(row) && !isDeepStrictEqual(stored.get(key), row)) this.changedAfterEnd.push(key);
    this.#stored = stored;
  }
}

/** Returns the name of a step, or of an item of a map, in scripts. */
function nameOf({ step_id, item }: Pick<Unit, "step_id" | "item">): string {
  return item < 0 ? step_id : `${step_id}:${item}`;
}

/** The text that work makes of its config. */
export function textOf({ step_id, item, config }: Pick<Unit, "step_id" | "item" | "config">): string {
  return `${nameOf({ step_id, item })}(${String(config.prompt ?? "")})`;
}
