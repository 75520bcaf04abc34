import type { PlanRow } from "../../storage/tables/plans.ts";

/** The plans that a run without a conversation has made: nothing else says whose they are. */
export class MadePlans {
  /** By their ids, when each was made: another one may have come under an id since. */
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
