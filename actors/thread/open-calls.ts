import type { ToolEffect } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { readEvents, type SeqRange, type ToolCall } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { branchEvents } from "../log/branch.ts";
import type { ContextMessage } from "../log/message.ts";
import { type ToolOutcome, toolOutcome, unansweredTool, unknownOutcome, unrunTool } from "../log/tool-outcome.ts";

/** Whether a branch ends in calls of which some have no result. */
export function hasOpenCalls(branch: readonly ContextMessage[]): boolean {
  const asked = branch.findLastIndex((message) => message.role !== "tool");
  const answered = new Set(branch.slice(asked + 1).map((message) => message.tool_call_id));
  return branch[asked]?.tool_calls?.some((call) => !answered.has(call.id)) ?? false;
}

/** Most replies ask for few calls: an intent and a result for each. */
const eventsExpected = 32;

/**
 * Results for the calls that an interrupted run has left without one, in the order of the calls. What has an intent in the log
 * may have run, and the model is told so; nothing is run again (decision 75). Calls that a run which is over has handed to its client
 * say that; with `endedRun` there is such a run.
 */
export async function closeOpenCalls(
  store: TenantStore,
  threadKey: number,
  { leaf_seq: leafSeq, next_seq: nextSeq }: Pick<ThreadRow, "leaf_seq" | "next_seq">,
  endedRun = false,
): Promise<ToolOutcome[]> {
  const answered = new Set<string | undefined>();
  const effects = new Map<string | undefined, ToolEffect>();
  const handed = new Map<string | undefined, unknown>();
  let onBranch = 0;
  for await (const { seq, kind, extra } of branchEvents(store, threadKey, leafSeq, eventsExpected)) {
    onBranch++;
    if (kind === "tool_result") answered.add(extra?.tool_call_id);
    if (kind === "tool_call" && extra?.metadata?.handed !== undefined)
      handed.set(extra.tool_call_id, extra.metadata.args);
    else if (kind === "tool_call") effects.set(extra?.tool_call_id, extra?.metadata?.effect as ToolEffect);
    if (kind !== "message") continue;
    const open = (extra?.tool_calls ?? []).filter((call) => !answered.has(call.id));
    const isCut = nextSeq - seq > onBranch;
    if (isCut && open.some(({ id }) => !effects.has(id) && !handed.has(id)))
      await addLeftIntents(effects, store, threadKey, { from: seq + 1, to: nextSeq });
    return open.map((call) => {
      const args = handed.get(call.id) ?? call.args;
      return endedRun && handed.has(call.id)
        ? unansweredTool({ ...call, args })
        : closeCall(call, effects.get(call.id));
    });
  }
  return [];
}

/** The conversation went back to before its calls were made: what they did, they did. Their intents stand before the next message. */
async function addLeftIntents(
  effects: Map<string | undefined, ToolEffect>,
  store: TenantStore,
  threadKey: number,
  { from, to }: SeqRange,
): Promise<void> {
  for (let seq = from; seq < to; ) {
    const page = await readEvents(store, threadKey, seq, Math.min(to, seq + eventsExpected));
    for (const { kind, extra } of page) {
      if (kind === "message") return;
      if (kind === "tool_call") effects.set(extra?.tool_call_id, extra?.metadata?.effect as ToolEffect);
    }
    seq = (page.at(-1)?.seq ?? to) + 1;
  }
}

function closeCall(call: ToolCall, effect: ToolEffect | undefined): ToolOutcome {
  if (effect === undefined) return unrunTool(call, "an earlier run was interrupted");
  return toolOutcome(call, `[tool error/interrupted] ${unknownOutcome(effect)}`, "error");
}
