import type { ToolCall } from "../../storage/events.ts";
import type { ContextMessage } from "../run/context/message.ts";

/** Tool calls at the end of a branch that have no result: what an interrupted run has left behind. */
export function openCalls(branch: readonly ContextMessage[]): ToolCall[] {
  const asked = branch.findLastIndex((message) => message.tool_calls !== null && message.tool_calls.length > 0);
  if (asked < 0) return [];
  const answered = new Set(branch.slice(asked + 1).map((message) => message.tool_call_id));
  return (branch[asked]?.tool_calls ?? []).filter((call) => !answered.has(call.id));
}
