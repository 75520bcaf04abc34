import type { WorkflowRunRow, WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";

/** The rows of a run with the changes of one transition, which are not stored yet. */
export class Draft {
  run: WorkflowRunRow;
  readonly steps: Map<string, WorkflowStepRow>;
  /** Items of maps, by step and number. */
  readonly items: Map<string, Map<number, WorkflowStepRow>>;
  readonly #changed = new Map<string, WorkflowStepRow>();
  /** True if only times of the next look have changed, so that the transition is no new version. */
  isQuiet = true;

  constructor(
    run: WorkflowRunRow,
    steps: ReadonlyMap<string, WorkflowStepRow>,
    items: ReadonlyMap<string, ReadonlyMap<number, WorkflowStepRow>>,
  ) {
    this.run = run;
    this.steps = new Map(steps);
    this.items = new Map([...items].map(([id, rows]) => [id, new Map(rows)]));
  }

  /** The changed rows. */
  get changed(): readonly WorkflowStepRow[] {
    return [...this.#changed.values()];
  }

  /** True if there is something to store. */
  get isChanged(): boolean {
    return !this.isQuiet || this.#changed.size > 0;
  }

  /** Changes a step, or an item of a map. The time of its next look is rounded up to whole milliseconds. */
  put(changed: WorkflowStepRow): WorkflowStepRow {
    const row = changed.due_at === null ? changed : { ...changed, due_at: Math.ceil(changed.due_at) };
    const before = this.of(row.step_id, row.item);
    if (before === undefined || !isSame(before, row)) this.isQuiet = false;
    if (row.item < 0) this.steps.set(row.step_id, row);
    else {
      const rows = this.items.get(row.step_id) ?? new Map<number, WorkflowStepRow>();
      rows.set(row.item, row);
      this.items.set(row.step_id, rows);
    }
    this.#changed.set(unitKey(row), row);
    return row;
  }

  /** Changes the run. */
  putRun(change: Partial<WorkflowRunRow>): void {
    this.run = { ...this.run, ...change };
    this.isQuiet = false;
  }

  of(stepId: string, item: number): WorkflowStepRow | undefined {
    return item < 0 ? this.steps.get(stepId) : this.items.get(stepId)?.get(item);
  }

  /** Returns the steps and items that have begun and not ended. */
  open(): WorkflowStepRow[] {
    return [...this.steps.values(), ...[...this.items.values()].flatMap((rows) => [...rows.values()])].filter(isOpen);
  }
}

/** Returns the name of a step or of an item within its run. */
export function unitKey({ step_id, item }: Pick<WorkflowStepRow, "step_id" | "item">): string {
  return item < 0 ? step_id : `${step_id}:${item}`;
}

/** True for a step that has begun and not ended. */
export function isOpen({ status }: Pick<WorkflowStepRow, "status">): boolean {
  return status === "running" || status === "waiting";
}

/** True for a step that has ended. */
export function isOver({ status }: Pick<WorkflowStepRow, "status">): boolean {
  return status !== "pending" && !isOpen({ status });
}

/** True if readers see no difference. */
function isSame(before: WorkflowStepRow, after: WorkflowStepRow): boolean {
  return (
    before.status === after.status && before.attempt === after.attempt && before.child_run_id === after.child_run_id
  );
}
