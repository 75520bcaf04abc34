import type { Logger } from "pino";
import type { Bus } from "../../bus/bus.ts";
import type { Env } from "../../bus/env.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { SharedBudgets } from "../../bus/protocol/task.ts";
import type { SecretMask } from "../../governance/secret-mask.ts";
import type { KindShape } from "../../governance/workflows/kind-shape.ts";
import type { Expansion } from "../../governance/workflows/references.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";

/**
 * A kind of steps. `begin` decides without waiting for anything outside. Its operations commit with the transition. `started` follows the
 * commit, and again after a crash, so it must be safe to repeat. `look` reads how far the work is. Work that has its own durable state is
 * found by the ids in `unit`.
 */
export interface StepKind extends KindShape {
  begin(unit: Unit, services: KindServices): Begun | Promise<Begun>;
  started?(unit: Unit, services: KindServices): Promise<void>;
  look?(unit: Unit, services: KindServices): Promise<Looked>;
  /** Stops the work. Its end is found by `look`. */
  cancel?(unit: Unit, services: KindServices): Promise<void>;
  /** Returns operations that end the work in the batch that cancels the step; only for work that ends at once. */
  cancelOps?(unit: Unit, services: KindServices): readonly WriteOp[];
}

/** The work of a step, or of an item of a map. */
export interface Unit {
  readonly run_id: string;
  readonly workflow_id: string;
  readonly step_id: string;
  /** -1 for the step itself. */
  readonly item: number;
  /** From 1. */
  readonly attempt: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly inputs: Readonly<Record<string, unknown>>;
  /** Untrusted sources of the config. */
  readonly taint: readonly string[];
  /** Reads values as the config of the step does. */
  readonly values: Expansion;
  readonly principal: Principal;
  /** The budget of the run, from which work reserves its cost; null for none. */
  readonly shared: SharedBudgets | null;
  /** Unguessable, and the same for every repetition of this try. */
  readonly id: string;
  /** JSON that the kind has stored; null before. */
  readonly state: unknown;
  /** Start of this try; null before. */
  readonly started_at: number | null;
}

/** The services of kinds. */
export interface KindServices {
  readonly store: TenantStore;
  readonly bus: Bus;
  readonly env: Env;
  readonly mask: SecretMask;
  readonly log: Logger;
}

/** The work is over. */
export type Outcome =
  | {
      readonly kind: "done";
      readonly output: Readonly<Record<string, unknown>>;
      readonly taint: readonly string[];
      readonly cost_usd?: number;
    }
  | {
      readonly kind: "failed";
      readonly error: string;
      /** False if a call that may have changed something has begun (decision 263). */
      readonly mayRetry: boolean;
      readonly cost_usd?: number;
      /** Set if the budget of the run could not pay the work: the run ends too. */
      readonly isOverBudget?: true;
    };

/** The work is not over. */
export interface Pending {
  readonly kind: "pending";
  readonly status: "running" | "waiting";
  /** Time of the next look, at the latest. */
  readonly due_at: number;
  readonly state?: unknown;
}

/** The progress of a step. */
export type Looked = Outcome | Pending;

/** How a step begins. */
export type Begun =
  | Outcome
  | (Pending & {
      readonly ops?: readonly WriteOp[];
      /** The durable run that works for the step. */
      readonly child_run_id?: string;
    });

/** Returns the time of the next look at work that reports its end itself: soon at first, and later for longer work. */
export function nextLook(now: number, startedAt: number | null): number {
  const passed = Math.max(0, now - (startedAt ?? now));
  return now + Math.min(lookMs.longest, Math.max(lookMs.first, passed / 2));
}

const lookMs = { first: 5_000, longest: 600_000 };
