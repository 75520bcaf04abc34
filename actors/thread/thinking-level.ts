import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import type { LogEntry } from "../log/entry.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { keep, untouched } from "./kept.ts";
import type { ThreadState } from "./thread-state.ts";

/** Stores the thinking level for later runs; the log of an idle thread records the change. */
export async function setThinkingLevel(
  state: ThreadState,
  { level }: { readonly level: ThinkingLevel | null },
  context: ActorContext<ThreadDeps>,
): Promise<{ level: ThinkingLevel | null }> {
  await untouched(state);
  if ((state.head?.meta.thinking_level ?? null) === level) return { level };
  const metadata = { type: "thinking_level_change", thinking_level: level };
  const entry: LogEntry = { kind: "thinking_level_change", role: null, content: "", extra: { metadata } };
  await keep(state, { thinking_level: level ?? undefined }, entry, context);
  return { level };
}
