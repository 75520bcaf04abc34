import { compactOnRequest } from "../compaction/compaction-rules.ts";
import type { RunContext } from "../context/run-context.ts";
import { type Finished, failedCall } from "../steps/endings.ts";

const over: Finished = {
  kind: "finished",
  final: null,
  stop_reason: "end_turn",
  failure: null,
  entries: [],
  ok: true,
};

/** Runs the loop of POST /chat/compact: it compacts the thread within the limits and the budget of the run, and no pattern runs. */
export async function compactThread(runContext: RunContext): Promise<Finished> {
  const outcome = await compactOnRequest(runContext, runContext.step.ephemeralInstruction ?? "");
  if (outcome.kind === "failed") {
    if (runContext.cancellation.cancelled || outcome.failure === null) return { ...over, ok: false };
    return failedCall(runContext, outcome.failure, "");
  }
  if (outcome.kind === "nothing") {
    const { tokens } = outcome;
    runContext.run.compaction = { compacted: false, event_id: null, tokens_before: tokens, tokens_after: tokens };
  } else {
    const { event_id, tokens_before, tokens_after } = outcome;
    runContext.run.compaction = { compacted: true, event_id, tokens_before, tokens_after };
  }
  return over;
}
