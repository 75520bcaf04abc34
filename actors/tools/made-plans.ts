import type { PlanRow } from "../../storage/tables/plans.ts";

/** Plans that a run without a thread created: no row records their owner. */
export class MadePlans {
  /** Creation times by id: a later plan may have the same id. */
  #times: Map<string, number> | null = null;

  add({ id, created_at }: MadePlan): void {
    this.#times ??= new Map();
    this.#times.set(id, created_at);
  }

  has({ id, created_at }: MadePlan): boolean {
    return this.#times?.get(id) === created_at;
  }
}

type MadePlan = Pick<PlanRow, "id" | "created_at">;
