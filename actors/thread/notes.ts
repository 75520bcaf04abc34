import { SvcError } from "../../bus/errors.ts";
import { fromJsonText } from "../../bus/protocol/json-text.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import type { CustomEntry, RateReply, ThreadRecord } from "../../bus/protocol/thread.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { type Feedback, feedbackOp, labelOp } from "../../storage/tables/event-marks.ts";
import {
  appendOp,
  eventId,
  eventSeq,
  eventsMax,
  type LogEvent,
  newestRecord,
  readEvent,
} from "../../storage/tables/events.ts";
import { growthOp, renameOp, reviseOp, type ThreadRow } from "../../storage/tables/threads.ts";
import type { LogEntry } from "../log/entry.ts";
import type { SummedUp } from "../log/messages.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import { publishEvents } from "./event-log-writer.ts";
import { appendAll } from "./log-state.ts";
import { dropState } from "./open.ts";
import { admitEntry } from "./room.ts";
import type { ThreadState } from "./thread-state.ts";

// Entries that clients add to a thread outside its runs: names, labels, ratings, custom entries. During a live run they are
// written by its writer, between its events.

type Context = ActorContext<ThreadDeps>;

/** Metadata keys reserved for the service. */
const ownKeys = [
  "event_id",
  "parent_id",
  "origin_request",
  "forked_from",
  "usage",
  "thinking",
  "controls",
  "taint",
  "attachments",
];

/** Names the thread. */
export async function nameThread(state: ThreadState, { name }: { name: string }, context: Context) {
  const { thread_key } = await existing(state);
  const entry = note("session_info", { type: "session_info", name });
  await append(state, entry, [renameOp(state.store, thread_key, name)], context);
  if (state.head !== null) state.head = { ...state.head, session_name: name };
  return {};
}

/** Sets or removes the label of an event. */
export async function labelEvent(
  state: ThreadState,
  { event_id, label }: { event_id: string; label: string | null },
  context: Context,
) {
  const head = await existing(state);
  const seq = seqOf(state, head, event_id);
  const entry = note("label", { type: "label", targetId: event_id, label });
  await append(state, entry, [labelOp(state.store, head.thread_key, seq, label)], context);
  return {};
}

/** Appends a custom entry of a client. */
export async function addCustom(state: ThreadState, entry: CustomEntry, context: Context) {
  const { content, role, in_context } = entry;
  const { uid } = await existing(state);
  const metadata: Record<string, unknown> = { ...fromJsonText(entry.metadata), in_context, type: "custom" };
  for (const key of ownKeys) delete metadata[key];
  const { seq } = await append(state, { kind: "custom", role, content, extra: { metadata } }, [], context);
  return { event_id: eventId(uid, seq) };
}

/** Appends a record. Its handler is never interleaved, so no other record comes between the check and the entry. */
export async function addRecord(state: ThreadState, { type, data, after }: ThreadRecord, context: Context) {
  const { thread_key } = await existing(state);
  const newest = await newestRecord(state.store, thread_key, type);
  if ((newest?.seq ?? -1) !== after) throw new SvcError("conflict");
  const metadata = { ...fromJsonText(data), type, record: type, pinned: true };
  const { seq } = await append(state, { kind: "audit", role: null, content: "", extra: { metadata } }, [], context);
  return { seq };
}

/** Rates a reply, or removes the rating. The log does not change. */
export async function rateReply(state: ThreadState, asked: RateReply, { env, deps }: Context) {
  const { event_id, rating, note: words, principal } = asked;
  const head = await existing(state);
  const { store } = state;
  const seq = seqOf(state, head, event_id);
  const event = await readEvent(store, head.thread_key, seq);
  if (event === undefined) throw new SvcError("unknown_event_id");
  if (event.kind !== "message" || event.role !== "assistant") throw new SvcError("not_an_assistant_message");
  const at = env.now();
  const feedback: Feedback | null = rating === null ? null : { rating, note: words, at };
  await store.write([feedbackOp(store, head.thread_key, seq, feedback), reviseOp(store, head.thread_key)], requestMs);
  deps.audit.record(state.tenantId, {
    event_type: "turn_feedback",
    status: rating ?? "cleared",
    manifest_id: head.manifest ?? "",
    principal_subj: principal.sub,
    payload: {
      thread_id: state.threadId,
      event_id,
      rating,
      note: words,
      model_id: event.extra?.metadata?.model ?? null,
    },
  });
  return { at };
}

/** Stores the summary of an abandoned branch with its usage. */
export async function addSummary(state: ThreadState, made: SummedUp, context: Context) {
  const { thread_key, rewound_at, rewound_to, summary, fromId, details, usage, ops } = made;
  await state.closing;
  const { head } = state;
  if (head === null || state.replaced || head.thread_key !== thread_key) return { event_id: null };
  if (head.meta.rewound_at !== rewound_at || head.meta.rewound_to !== rewound_to) return { event_id: null };
  const metadata = { type: "branch_summary", fromId, details, ...(usage === null ? {} : { usage }) };
  const entry: LogEntry = { kind: "branch_summary", role: "system", content: summary, extra: { metadata } };
  const [event] = await appendNotes(state, [entry], ops, context);
  return { event_id: eventId(head.uid, event?.seq ?? 0) };
}

function note(kind: "session_info" | "label", metadata: Readonly<Record<string, unknown>>): LogEntry {
  return { kind, role: null, content: "", extra: { metadata } };
}

/** Returns the thread's row, once no recovery is in progress. Refuses with unknown_thread. */
async function existing(state: ThreadState): Promise<ThreadRow> {
  await state.closing;
  if (state.replaced) throw new SvcError("actor_lost");
  if (state.head === null) throw new SvcError("unknown_thread");
  return state.head;
}

/** Returns the position of a durable event. Refuses with unknown_event_id. */
function seqOf({ committedSeq }: ThreadState, { uid }: ThreadRow, id: string): number {
  const seq = eventSeq(uid, id);
  if (seq < 0 || seq >= committedSeq) throw new SvcError("unknown_event_id");
  return seq;
}

/** Appends one entry of a client, with `ops` in its batch. Refuses with thread_too_large or storage_quota_exceeded. */
async function append(
  state: ThreadState,
  entry: LogEntry,
  ops: readonly WriteOp[],
  context: Context,
): Promise<LogEvent> {
  await admitEntry(state, entry, context.deps);
  return (await appendNotes(state, [entry], ops, context))[0] as LogEvent;
}

/** Appends several entries, without these checks. */
export async function appendNotes(
  state: ThreadState,
  entries: readonly LogEntry[],
  ops: readonly WriteOp[],
  context: Context,
): Promise<readonly LogEvent[]> {
  const { live } = state;
  const writing = live === null ? appendAlone(state, entries, ops, context) : live.note(entries, ops);
  state.noting = writing;
  try {
    return await writing;
  } finally {
    state.noting = null;
  }
}

/** Appends while no run is live. If that fails, the state is ahead of the log and is reloaded. */
async function appendAlone(
  state: ThreadState,
  entries: readonly LogEntry[],
  ops: readonly WriteOp[],
  context: Context,
): Promise<readonly LogEvent[]> {
  const { store, head: before } = state;
  if (before === null) throw new SvcError("unknown_thread");
  const { head, events } = appendAll(before, entries, context.env.now());
  if (head.next_seq > eventsMax) throw new SvcError("storage_unavailable", { subject: "thread_full" });
  // Names and labels do not move the thread to the top of the list.
  const isContent = entries.some(({ kind }) => kind === "custom");
  const moved = isContent ? head : { ...head, updated_at: before.updated_at };
  state.head = moved;
  const appends = events.map((event) => appendOp(store, head.thread_key, event));
  try {
    await store.write([growthOp(store, before, moved), ...appends, ...ops], requestMs);
  } catch (error) {
    dropState(state, context, error);
    throw error;
  }
  state.committedSeq = head.next_seq;
  state.committedLeaf = head.leaf_seq;
  state.recent?.push(...events);
  publishEvents(context.bus, state, events);
  tellNews(context.bus, state.tenantId, () => ({ kind: "thread", thread_id: state.threadId, change: "updated" }));
  return events;
}
