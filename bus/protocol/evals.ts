import type { JsonText } from "./json-text.ts";
import type { Principal } from "./principal.ts";

/** Messages to one run of an evaluation, which starts the durable runs of its items and records their scores. */
export interface EvalsMessages {
  /**
   * Begins the run. Safe to repeat. Refuses with not_found, eval_dataset_empty, too_many_eval_runs, unknown_manifest,
   * invalid_manifest and the refusals of spec.auth.inbound.
   */
  start: { body: AskedEval; reply: { readonly run_id: string } };
  /** Continues the run after a crash, retries items that could not start, and records ends whose message was lost. */
  look: { body: Record<string, never> };
  /** A durable run of an item has ended. */
  ended: { body: { readonly item_id: string } };
  /** Ends the run and aborts its items. Replies false if it had ended. Refuses with not_found. */
  cancel: { body: { readonly principal: Principal }; reply: { readonly cancelled: boolean } };
}

/** A requested evaluation. */
export interface AskedEval {
  readonly principal: Principal;
  readonly dataset_name: string;
  /** The manifest by name; ignored with `body`. */
  readonly manifest: string;
  /** A version of the tenant's store; null for the one that a new thread would get. */
  readonly version: number | null;
  /** A manifest that is not stored, as JSON text; null to evaluate a named one. */
  readonly body: JsonText<unknown> | null;
  readonly options: EvalOptions;
  /** Set for the continuous evaluation of a dataset: the due time that the run claims. */
  readonly due_at?: number;
}

/** How a run of an evaluation is scored. */
export interface EvalOptions {
  readonly deterministic_judge: boolean;
  readonly use_llm_judge: boolean;
  readonly judge_model: string | null;
  readonly mock: boolean;
  readonly concurrency: number;
}
