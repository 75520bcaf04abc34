import { runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { SteerThread, TakenNote, ThreadNote } from "../../bus/protocol/thread.ts";
import { requestMs, type WriteOp } from "../../storage/store/store.ts";
import { eventId } from "../../storage/tables/events.ts";
import {
  type InputHead,
  messagesMax,
  notesMax,
  type QueuedInput,
  queuedInputs,
  queueInputOp,
  unqueueInputOp,
} from "../../storage/tables/queued-inputs.ts";
import { insertThreadOp, queuedOp, type ThreadRow } from "../../storage/tables/threads.ts";
import { supersedeWaitsOp } from "../../storage/tables/waits.ts";
import type { LogEntry } from "../log/entry.ts";
import type { TakeInputs, TakenInputs } from "../log/messages.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { ThreadDeps } from "./deps.ts";
import type { EventLogWriter } from "./event-log-writer.ts";
import { InputQueue } from "./input-queue.ts";
import { appendNotes } from "./notes.ts";
import { dropState, newThreadRow } from "./open.ts";
import { admitEntry } from "./room.ts";
import { holderOf, type ThreadState } from "./thread-state.ts";

// Messages to a thread during or before a run (decision 93: steers, follow-ups and notes are rows). The row is written before
// the message is acknowledged, and deleted in the batch that appends the message to the log. So a crash neither loses nor
// duplicates a message. The run receives a hint and takes inputs between its steps. Its last batch is refused while it has
// inputs to take.

type Context = ActorContext<ThreadDeps>;

/** Queues a message for the current run of the thread, or for the next one. */
export async function queueMessage(
  state: ThreadState,
  { text, kind, principal, run_id, screened }: SteerThread,
  context: Context,
): Promise<{ queued: SteerThread["kind"] }> {
  const queue = await openQueue(state);
  return queue.alone(async () => {
    if (run_id !== undefined && state.live?.runId !== run_id) throw new SvcError("run_finished");
    if (queue.count("steer") + queue.count("follow_up") >= messagesMax) throw new SvcError("queue_full");
    const thread = await existingThread(state, context);
    if (screened !== undefined && screened !== (thread.manifest ?? "")) throw new SvcError("conflict");
    const detail = screened === undefined || screened === "" ? null : { screened };
    const said = { kind, subject: "", content: text.toWellFormed(), sender: principal.sub, detail };
    await admitEntry(state, entryOf(said), context.deps);
    await add(state, queue, { ...said, thread_key: thread.thread_key, number: queue.next() }, [], context);
    return { queued: kind };
  });
}

/** Queues a note for the current run. Without a run, appends it to the log after queued ones. */
export async function takeNote(state: ThreadState, note: ThreadNote, context: Context): Promise<TakenNote> {
  const queue = await openQueue(state);
  return queue.alone(async () => {
    const earlier = queue.noteOn(note.subject);
    const isHeld = holderOf(state) !== undefined;
    if (isHeld && earlier === undefined && queue.count("note") >= notesMax) throw new SvcError("queue_full");
    const { thread_key, uid } = await existingThread(state, context);
    const { subject, content, metadata, frame } = note;
    const detail = { metadata, frame };
    const number = queue.next();
    const row: QueuedInput = { thread_key, number, kind: "note", subject, content, sender: "", detail };
    await admitEntry(state, entryOf(row), context.deps);
    if (isHeld) {
      await add(state, queue, row, earlier === undefined ? [] : [earlier], context);
      return { status: "queued", event_id: null };
    }
    const waiting = queue.notes();
    const others = waiting.filter((other) => other !== earlier);
    const rows = [...(await queuedInputs(state.store, thread_key, numbersOf(others))), row];
    const entries = rows.map((each) => entryOf(each));
    const events = await appendNotes(state, entries, removalOps(state, queue, waiting), context);
    queue.remove(waiting);
    return { status: "recorded", event_id: eventId(uid, events.at(-1)?.seq ?? 0) };
  });
}

/** Moves the inputs that the live run takes now into its log. */
export async function takeInputs(state: ThreadState, writer: EventLogWriter, asked: TakeInputs): Promise<TakenInputs> {
  const { queue, store, head } = state;
  const nothing = { durable_seq: state.committedSeq, inputs: [], seen: 0, steers: 0 };
  if (queue === null || head === null) return nothing;
  return queue.alone(async () => {
    const taken = queue.select(asked);
    if (taken.length === 0) return { ...nothing, seen: queue.last, steers: queue.count("steer") };
    const rows = await queuedInputs(store, head.thread_key, numbersOf(taken));
    if (state.live !== writer || rows.length !== taken.length) throw new SvcError("actor_lost");
    const entries = rows.map((row) => entryOf(row));
    const { durable_seq } = await writer.append(entries, removalOps(state, queue, taken));
    queue.remove(taken);
    const inputs = rows.map(({ kind, content, sender, detail }) => ({
      kind,
      content,
      sender,
      frame: detail?.frame ?? null,
    }));
    return { durable_seq, inputs, seen: queue.last, steers: queue.count("steer") };
  });
}

/** Returns statements that end the questions of a run that is being suspended, if a steer is queued. */
export function supersedingOps({ queue, store, head }: ThreadState): WriteOp[] {
  return queue !== null && head !== null && queue.count("steer") > 0 ? [supersedeWaitsOp(store, head.thread_key)] : [];
}

/** Returns the queue, once no recovery is in progress and no run is about to begin. */
async function openQueue(state: ThreadState): Promise<InputQueue> {
  await state.closing;
  await state.opening?.over();
  if (state.replaced) throw new SvcError("actor_lost");
  state.queue ??= new InputQueue([]);
  return state.queue;
}

/** Returns the thread's row. Creates it if missing; lists omit it until it has an event. */
async function existingThread(state: ThreadState, context: Context): Promise<ThreadRow> {
  // Earlier work in the queue may have replaced the state.
  if (state.replaced) throw new SvcError("actor_lost");
  if (state.head !== null) return state.head;
  const row = await newThreadRow(state, context.env, context.deps);
  try {
    await state.store.write([insertThreadOp(state.store, row)], requestMs);
  } catch (error) {
    dropState(state, context);
    throw error;
  }
  state.head = row;
  return row;
}

/** Writes a row, in place of others, and notifies the run. A steer ends the run's open questions. */
async function add(
  state: ThreadState,
  queue: InputQueue,
  row: QueuedInput,
  replaced: readonly InputHead[],
  context: Context,
): Promise<void> {
  const { store } = state;
  const { number, kind, subject } = row;
  const ops = (): WriteOp[] => {
    const isHeld = kind === "steer" && holderOf(state) !== undefined;
    const superseding = isHeld ? [supersedeWaitsOp(store, row.thread_key)] : [];
    return [...removalOps(state, queue, replaced, 1), queueInputOp(store, row), ...superseding];
  };
  await writeBeside(state, ops, context);
  queue.remove(replaced);
  queue.add({ number, kind, subject });
  const { live, suspended, tenantId, suffix } = state;
  if (live !== null && kind !== "follow_up")
    context.bus.tell(runAddress(tenantId, suffix, live.runId), "steer", { number, interrupts: kind === "steer" });
  else if (suspended !== null && kind === "steer")
    context.bus.tell(runAddress(tenantId, suffix, suspended.run_id), "resume", { due: false });
}

/** Returns statements that delete rows and update the count of queued inputs; `added` is the number about to be added. */
function removalOps(state: ThreadState, queue: InputQueue, gone: readonly InputHead[], added = 0): WriteOp[] {
  const { store } = state;
  const head = state.head as ThreadRow;
  const ops = gone.map(({ number }) => unqueueInputOp(store, head.thread_key, number));
  return [...ops, queuedOp(store, head, queue.size - gone.length + added)];
}

/** Writes in the order of the live run's batches, or directly if there is no live run. */
async function writeBeside(state: ThreadState, ops: () => WriteOp[], context: Context): Promise<void> {
  for (;;) {
    const { live, store } = state;
    try {
      if (live !== null) await live.note([], ops());
      else await store.write(ops(), requestMs);
      return;
    } catch (error) {
      const isTaken = error instanceof SvcError && error.code === "conflict";
      // A suspended run was resumed concurrently; write through its writer.
      if (live === null && isTaken && state.live !== null) continue;
      // The outcome is unknown, so drop the state and reload it. A live run's writer handles this itself.
      if (live === null) dropState(state, context);
      throw error;
    }
  }
}

/** Returns the log entry of an input. */
function entryOf({ kind, content, detail }: Pick<QueuedInput, "kind" | "content" | "detail">): LogEntry {
  const metadata: Record<string, unknown> =
    kind === "note" ? { ...detail?.metadata, in_context: true } : { type: kind };
  return { kind: kind === "note" ? "custom" : "message", role: "user", content, extra: { metadata } };
}

function numbersOf(inputs: readonly InputHead[]): number[] {
  return inputs.map(({ number }) => number);
}
