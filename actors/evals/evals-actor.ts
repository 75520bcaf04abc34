import { evalsAddress, splitEvalsKey } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { evalRunById } from "../../storage/tables/eval-runs.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import { beginEvaluation, refuseDue } from "./begin.ts";
import type { EvalsDeps } from "./deps.ts";
import { Progress } from "./progress.ts";

interface EvalsState {
  readonly store: TenantStore;
  readonly evalRunId: string;
  /** Null before the first look. */
  progress: Progress | null;
  /** True if this actor has begun the run, so that no other process can have started an item. */
  isNew: boolean;
}

/** Runs one evaluation. Its state is a cache of the store; see progress.ts. */
export const evalsActor = defineActor<"evals", EvalsState, EvalsDeps>({
  kind: "evals",
  mailboxLimit: 4_096,
  interleaves: ["ended", "look", "cancel"],
  reserved: ["cancel"],
  passivateAfterMs: 30_000,
  load({ key, deps }) {
    const { tenantId, evalRunId } = splitEvalsKey(key);
    return { store: deps.store.tenant(tenantId), evalRunId, progress: null, isNew: false };
  },
  idle: ({ progress }) => progress === null || progress.isEnded || progress.isIdle,
  crashed: () => {},
  on: {
    async start(state, asked, context) {
      const { store, evalRunId } = state;
      try {
        state.isNew = await beginEvaluation(store, evalRunId, asked, context);
      } catch (error) {
        if (asked.due_at !== undefined) await refuseDue(store, asked, SvcError.from(error), context);
        throw error;
      }
      context.bus.tell(evalsAddress(store.tenantId, evalRunId), "look", {});
      return { run_id: evalRunId };
    },

    async look(state, _body, context) {
      const progress = await progressOf(state, context);
      if (progress === null || progress.isEnded) return context.leave();
      await progress.look();
    },

    async ended(state, { item_id }, context) {
      if (state.progress !== null) return state.progress.ended(item_id);
      const progress = await progressOf(state, context);
      await progress?.look();
    },

    async cancel(state, _body, context) {
      const row = await evalRunById(state.store, state.evalRunId);
      if (row === undefined) throw new SvcError("not_found");
      const progress = await progressOf(state, context);
      if (progress === null || progress.isEnded) return { cancelled: false };
      await progress.stop("cancelled");
      return { cancelled: true };
    },
  },
});

/** Returns the progress of an unfinished run; null for any other. */
async function progressOf(state: EvalsState, context: ActorContext<EvalsDeps>): Promise<Progress | null> {
  if (state.progress !== null) return state.progress;
  const row = await evalRunById(state.store, state.evalRunId);
  if (row?.status !== "in_progress") return null;
  state.progress ??= new Progress(state.store, row, state.isNew, context);
  return state.progress;
}
