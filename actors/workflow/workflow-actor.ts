import { splitWorkflowKey, workflowAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { workflowRunById } from "../../storage/tables/workflow-runs.ts";
import { type ActorContext, defineActor } from "../runtime/define.ts";
import { beginRun } from "./begin-run.ts";
import type { WorkflowDeps } from "./deps.ts";
import { loadProgress } from "./load-progress.ts";
import type { RunProgress } from "./run-progress.ts";

interface WorkflowState {
  readonly store: TenantStore;
  readonly runId: string;
  /** Null before the first look, and after the rows have changed without it. */
  progress: Promise<RunProgress | null> | null;
  known: RunProgress | null;
}

/** Runs one workflow. Its state is a cache of the store; see run-progress.ts. */
export const workflowActor = defineActor<"workflow", WorkflowState, WorkflowDeps>({
  kind: "workflow",
  mailboxLimit: 4_096,
  interleaves: ["ended", "look", "cancel"],
  reserved: ["cancel"],
  // Values of steps may be large, and a run that waits needs none of them.
  passivateAfterMs: 5_000,
  leavesCrowds: true,
  load({ key, deps }) {
    const { tenantId, runId } = splitWorkflowKey(key);
    return { store: deps.store.tenant(tenantId), runId, progress: null, known: null };
  },
  idle: ({ known }) => known === null || known.isIdle,
  crashed: () => {},
  on: {
    async start({ store, runId }, asked, context) {
      await beginRun(store, runId, asked, context);
      context.bus.tell(workflowAddress(store.tenantId, runId), "look", {});
      return { run_id: runId };
    },

    look(state, { wake_at }, context) {
      const { known } = state;
      if (wake_at !== undefined && known?.isIdle && known.wakeAt !== wake_at) {
        state.progress = null;
        state.known = null;
      }
      return advance(state, context, (progress) => progress.advance());
    },

    ended: (state, unit, context) => advance(state, context, (progress) => progress.ended(unit)),

    async cancel(state, _body, context) {
      const row = await workflowRunById(state.store, state.runId);
      if (row === undefined) throw new SvcError("not_found");
      if (row.finished_at !== null) throw new SvcError("run_finished");
      for (let tries = 0; tries < triesMax; tries++) {
        const progress = await progressOf(state, context);
        if (progress === null || progress.isEnded) throw new SvcError("run_finished");
        await progress.cancel();
        if (!progress.isStale) return {};
        state.progress = null;
      }
      throw new SvcError("conflict");
    },
  },
});

/** How often a change is tried that another process has overtaken. */
const triesMax = 3;

async function advance(
  state: WorkflowState,
  context: ActorContext<WorkflowDeps>,
  work: (progress: RunProgress) => Promise<void>,
): Promise<void> {
  const progress = await progressOf(state, context);
  if (progress === null || progress.isEnded) return context.leave();
  try {
    await work(progress);
  } finally {
    if (progress.isStale && state.known === progress) {
      state.progress = null;
      state.known = null;
    }
    if (progress.isEnded) context.leave();
  }
}

/** Returns the progress of an unfinished run; null for any other. */
function progressOf(state: WorkflowState, context: ActorContext<WorkflowDeps>): Promise<RunProgress | null> {
  if (state.progress === null) {
    const loading = loadProgress(state.store, state.runId, context);
    state.progress = loading;
    loading.then(
      (progress) => {
        if (state.progress === loading) state.known = progress;
      },
      () => {
        if (state.progress === loading) state.progress = null;
      },
    );
  }
  return state.progress;
}
