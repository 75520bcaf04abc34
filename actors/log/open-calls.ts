import type { SecretMask } from "../../governance/secret-mask.ts";
import type { ToolEffect } from "../../manifests/registries.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type LogEvent, readEvents, type SeqRange, type ToolCall } from "../../storage/tables/events.ts";
import type { ThreadRow } from "../../storage/tables/threads.ts";
import { branchEvents } from "./branch.ts";
import type { LogEntry } from "./entry.ts";
import type { ContextMessage } from "./message.ts";
import { eventsAt, isOfSubAgent, ofSubAgent } from "./sub-agent-events.ts";
import {
  editedText,
  type ToolOutcome,
  toolOutcome,
  unansweredTool,
  unknownOutcome,
  unrunTool,
} from "./tool-outcome.ts";

/** True if the branch ends in calls without results. */
export function hasOpenCalls(branch: readonly ContextMessage[]): boolean {
  const asked = branch.findLastIndex((message) => message.role !== "tool");
  const answered = new Set(branch.slice(asked + 1).map((message) => message.tool_call_id));
  return branch[asked]?.tool_calls?.some((call) => !answered.has(call.id)) ?? false;
}

/** The intent of a call in the log. */
interface Intent {
  readonly effect: ToolEffect;
  /** Absent if they are the model's own. */
  readonly args?: ToolCall["args"];
  /** True if a person edited them. */
  readonly edited?: boolean;
}

/** How the results are rendered. */
interface ClosedFor {
  readonly mask: SecretMask;
  /** True if the calls belong to a run that has ended: those sent to its client are reported as unanswered. */
  readonly endedRun?: boolean;
}

/** Most replies have few calls, each with an intent and a result. */
const eventsExpected = 32;

/**
 * Returns results for the calls that an interrupted run left without one, in the order of the calls. A call with an intent may
 * have run, and its result says so; nothing runs again (decision 75: a run that is not durable never repeats a call).
 */
export async function closeOpenCalls(
  store: TenantStore,
  threadKey: number,
  { leaf_seq: leafSeq, next_seq: nextSeq }: Pick<ThreadRow, "leaf_seq" | "next_seq">,
  { mask, endedRun = false }: ClosedFor,
): Promise<ToolOutcome[]> {
  const answered = new Set<string | undefined>();
  const begun = new Map<string | undefined, Intent>();
  const handed = new Map<string | undefined, Intent>();
  let onBranch = 0;
  for await (const { seq, kind, extra } of branchEvents(store, threadKey, leafSeq, eventsExpected)) {
    onBranch++;
    if (kind === "tool_result") answered.add(extra?.tool_call_id);
    if (kind === "tool_call" && extra?.metadata?.handed !== undefined)
      handed.set(extra.tool_call_id, extra.metadata as unknown as Intent);
    else if (kind === "tool_call") begun.set(extra?.tool_call_id, extra?.metadata as unknown as Intent);
    if (kind !== "message") continue;
    const open = (extra?.tool_calls ?? []).filter((call) => !answered.has(call.id));
    const isCut = nextSeq - seq > onBranch;
    if (isCut && open.some(({ id }) => !begun.has(id) && !handed.has(id)))
      await addLeftIntents(begun, store, threadKey, { from: seq + 1, to: nextSeq });
    return open.map((call) => {
      const { args = call.args, edited = false } = handed.get(call.id) ?? {};
      return endedRun && handed.has(call.id)
        ? unansweredTool({ ...call, args }, edited)
        : closeCall(call, begun.get(call.id), mask);
    });
  }
  return [];
}

/**
 * Returns results for the calls that the sub-agents of a run left without one, as log entries; `leaf_seq` is the end of the run's
 * branch. Their events follow the newest message of the thread, because a run appends no message while its sub-agents work.
 */
export async function closeSubAgentCalls(
  store: TenantStore,
  threadKey: number,
  { leaf_seq: leafSeq }: Pick<ThreadRow, "leaf_seq">,
  mask: SecretMask,
): Promise<LogEntry[]> {
  const newestFirst: LogEvent[] = [];
  for await (const event of branchEvents(store, threadKey, leafSeq, eventsExpected)) {
    if (event.kind === "message") break;
    if (isOfSubAgent(event)) newestFirst.push(event);
  }
  const events = newestFirst.reverse();
  const places = new Set(events.map(({ extra }) => String(extra?.metadata?.member)));
  return [...places].flatMap((place) => {
    const own = eventsAt(events, place).filter((event) => !isOfSubAgent(event));
    const answered = new Set<string | undefined>();
    const begun = new Map<string | undefined, Intent>();
    for (const { kind, extra } of own) {
      if (kind === "tool_result") answered.add(extra?.tool_call_id);
      else if (kind === "tool_call" && extra?.metadata?.handed === undefined)
        begun.set(extra?.tool_call_id, extra?.metadata as unknown as Intent);
    }
    const open = own.flatMap(({ extra }) => extra?.tool_calls ?? []).filter(({ id }) => !answered.has(id));
    const closed = open.map((call) => closeCall(call, begun.get(call.id), mask).entry);
    return ofSubAgent(closed, place);
  });
}

/** After a rewind, intents may lie on another branch, between the reply and the next message. Those calls may have run too. */
async function addLeftIntents(
  begun: Map<string | undefined, Intent>,
  store: TenantStore,
  threadKey: number,
  { from, to }: SeqRange,
): Promise<void> {
  for (let seq = from; seq < to; ) {
    const page = await readEvents(store, threadKey, seq, Math.min(to, seq + eventsExpected));
    for (const { kind, extra } of page) {
      if (kind === "message") return;
      if (kind === "tool_call") begun.set(extra?.tool_call_id, extra?.metadata as unknown as Intent);
    }
    seq = (page.at(-1)?.seq ?? to) + 1;
  }
}

function closeCall(call: ToolCall, intent: Intent | undefined, mask: SecretMask): ToolOutcome {
  if (intent === undefined) return unrunTool(call, "an earlier run was interrupted");
  const { effect, args, edited = false } = intent;
  const text = `[tool error/interrupted] ${unknownOutcome(effect)}`;
  return toolOutcome(call, edited ? editedText(args, text, mask) : text, "error");
}
