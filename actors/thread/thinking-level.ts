import { SvcError } from "../../bus/errors.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { appendOp, eventsMax } from "../../storage/tables/events.ts";
import { insertThreadOp, metaOp, progressOp, type ThreadMeta, type ThreadRow } from "../../storage/tables/threads.ts";
import type { JournalEntry } from "../log/entry.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { publishEvents } from "./log-writer.ts";
import { newThreadRow } from "./open.ts";
import { appendAll } from "./thread-log.ts";
import type { ThreadState } from "./thread-state.ts";

/**
 * Keeps how hard the model is to think from the next run on. The log says so too, unless a run has it: then the row alone does. A
 * conversation that is not there gets a row, and is in no list before something is said in it.
 */
export async function setThinkingLevel(
  state: ThreadState,
  { level }: { readonly level: ThinkingLevel | null },
  context: ActorContext<ThreadDeps>,
): Promise<{ level: ThinkingLevel | null }> {
  await state.closing;
  await state.opening?.over();
  // What was about to begin did not, and with it went this state.
  if (state.replaced) throw new SvcError("actor_lost");
  const { head, store } = state;
  if ((head?.meta.thinking_level ?? null) === level) return { level };
  const { thinking_level: _before, ...others } = head?.meta ?? {};
  const meta: ThreadMeta = level === null ? others : { ...others, thinking_level: level };
  if (head === null) await create(state, meta, context);
  else if (state.live !== null || state.parked !== null || head.next_seq === 0)
    await store.write([metaOp(store, { ...head, meta })], requestMs);
  else await append(state, { ...head, meta }, level, context);
  if (state.head !== null) state.head = { ...state.head, meta };
  return { level };
}

async function create(state: ThreadState, meta: ThreadMeta, { env, deps }: ActorContext<ThreadDeps>): Promise<void> {
  const { store } = state;
  const row: ThreadRow = { ...(await newThreadRow(state, env, deps)), meta };
  await store.write([insertThreadOp(store, row)], requestMs);
  state.head = row;
}

async function append(
  state: ThreadState,
  before: ThreadRow,
  level: ThinkingLevel | null,
  { env, bus }: ActorContext<ThreadDeps>,
): Promise<void> {
  const { store } = state;
  const metadata = { type: "thinking_level_change", thinking_level: level };
  const entry: JournalEntry = { kind: "thinking_level_change", role: null, content: "", extra: { metadata } };
  const { head, events } = appendAll(before, [entry], env.now());
  if (head.next_seq > eventsMax) throw new SvcError("storage_unavailable", { subject: "thread_full" });
  const ops: WriteOp[] = [metaOp(store, head), progressOp(store, head)];
  await store.write([...ops, ...events.map((event) => appendOp(store, head.thread_key, event, null))], requestMs);
  state.head = head;
  state.committedSeq = head.next_seq;
  state.committedLeaf = head.leaf_seq;
  state.recent?.push(...events);
  publishEvents(bus, state, events);
}
