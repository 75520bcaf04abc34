import type { ToolEffect } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { ToolCall } from "../../storage/tables/events.ts";
import { branchEvents } from "../log/branch.ts";
import type { ContextMessage } from "../log/message.ts";
import { type ToolOutcome, toolOutcome, unknownOutcome, unrunTool } from "../log/tool-outcome.ts";

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
 * may have run, and the model is told so; nothing is run again (decision 75). `origin` is the request whose events they are,
 * if it is kept.
 */
export async function closeOpenCalls(
  store: TenantStore,
  threadKey: number,
  leafSeq: number,
  origin: string | null,
): Promise<ToolOutcome[]> {
  const answered = new Set<string | undefined>();
  const effects = new Map<string | undefined, ToolEffect>();
  for await (const { kind, extra } of branchEvents(store, threadKey, leafSeq, eventsExpected)) {
    if (kind === "tool_result") answered.add(extra?.tool_call_id);
    if (kind === "tool_call") effects.set(extra?.tool_call_id, extra?.metadata?.effect as ToolEffect);
    if (kind !== "message") continue;
    const open = (extra?.tool_calls ?? []).filter((call) => !answered.has(call.id));
    return open.map((call) => closeCall(call, effects.get(call.id), origin));
  }
  return [];
}

function closeCall(call: ToolCall, effect: ToolEffect | undefined, origin: string | null): ToolOutcome {
  if (effect === undefined) return unrunTool(call, "an earlier run was interrupted", origin);
  return toolOutcome(call, `[tool error/interrupted] ${unknownOutcome(effect)}`, "error", origin);
}
