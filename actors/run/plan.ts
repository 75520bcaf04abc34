import type { SvcError } from "../../bus/errors.ts";
import type { RunResult } from "../../bus/frames/output.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { Surface } from "../../bus/protocol/thread.ts";
import type { CompiledAgent } from "../../manifests/compiled.ts";
import type { ModelRoute } from "../../manifests/registries.ts";
import type { WriteOp } from "../../storage/store/store.ts";
import type { ContextMessage } from "./context/message.ts";

/** A turn that was admitted: everything about it is known and allowed. */
export interface RunPlan {
  readonly run_id: string;
  readonly request_id: string;
  readonly surface: Surface;
  readonly principal: Principal;
  readonly agent: CompiledAgent;
  /** The model of this turn, then the manifest's fallbacks. */
  readonly routes: readonly ModelRoute[];
  readonly temperature: number;
  readonly max_tokens: number | null;
  readonly thread_suffix: string | null;
  /** What the model is to be shown, the caller's new messages last. The run adds to it. */
  readonly branch: ContextMessage[];
  /** Where the messages of this turn begin in `branch`. */
  readonly turnStart: number;
  /** Shown to the model at its first call, as the caller's words, and kept nowhere. */
  readonly nudge: string | null;
  /** The caller's words, for audit; null when there are none. */
  readonly userText: string | null;
  readonly startedAt: number;
  /** Put into the metadata of every event of the turn, when it may be replayed. */
  readonly origin: string | null;
  /** What is to be written with the turn's last batch, knowing how it ended and the sequence number after its last event. */
  settle(outcome: RunOutcome, endSeq: number): readonly WriteOp[];
}

/** How a run is over: with a result, be it an aborted one, or without one, because the server stops or refuses something on the way. */
export type RunOutcome =
  | { readonly kind: "finished"; readonly result: RunResult }
  | { readonly kind: "failed"; readonly error: SvcError };
