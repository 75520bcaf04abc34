import { SvcError } from "../../../bus/errors.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { branchEvents } from "../../log/branch.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { OpenThread } from "../../log/messages.ts";

/**
 * Returns the instruction that continues a thread. Null after a user message, which needs none; a text after tool calls, and after a reply
 * that was cut off. Refuses with nothing_to_continue and already_complete.
 */
export async function ephemeralInstructionFor(store: TenantStore, thread: OpenThread): Promise<string | null> {
  const last = thread.branch.at(-1);
  if (!last || !thread.exists) throw new SvcError("nothing_to_continue");
  const ephemeralInstruction = ephemeralInstructionAfter(last);
  if (last.role !== "assistant" || last.tool_calls !== null) return ephemeralInstruction;
  for await (const { kind, role, extra } of branchEvents(store, thread.thread_key, thread.leaf_seq, 16)) {
    if (kind !== "message" || role !== "assistant") continue;
    if (extra?.metadata?.status === undefined) break;
    return ephemeralInstruction;
  }
  throw new SvcError("already_complete");
}

/** Returns the instruction to continue after this message; null if the model can answer without one. */
export function ephemeralInstructionAfter(last: ContextMessage | undefined): string | null {
  if (last === undefined) return null;
  if (last.role === "tool" || last.tool_calls !== null) return "[continue]";
  return last.role === "assistant" ? "Continue." : null;
}
