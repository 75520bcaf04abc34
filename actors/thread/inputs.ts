import { isReservedSuffix, runAddress } from "../../bus/address.ts";
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
import { InputQueue } from "./input-queue.ts";
import type { EventLogWriter } from "./log-writer.ts";
import { appendNotes } from "./notes.ts";
import { dropState, newThreadRow } from "./open.ts";
import { admitEntry } from "./room.ts";
import { holderOf, type ThreadState } from "./thread-state.ts";

// What is said to a conversation while a run has it, or before one does (decision 93). It is a row before it is acknowledged, and
// goes in the batch that puts it into the log: a crash neither loses nor doubles it. The run is told by a hint, and asks for it between
// its steps; its last batch is refused while there is something that it has to take.

type Context = ActorContext<ThreadDeps>;

/** Keeps a message for the run that has the conversation, or for the next one. */
export async function queueMessage(
  state: ThreadState,
  { text, kind, principal }: SteerThread,
  context: Context,
): Promise<{ queued: SteerThread["kind"] }> {
  const queue = await openQueue(state);
  return queue.alone(async () => {
    if (queue.count("steer") + queue.count("follow_up") >= messagesMax) throw new SvcError("queue_full");
    const thread = await existingThread(state, context);
    const said = { kind, subject: "", content: text.toWellFormed(), sender: principal.sub, detail: null };
    await admitEntry(state, entryOf(said), context.deps);
    await add(state, queue, { ...said, thread_key: thread.thread_key, number: queue.next() }, [], context);
    return { queued: kind };
  });
}

/** Keeps a note for the run that has the conversation; without one it goes into the log, behind those that still wait. */
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

/** Moves what the live run is to take now into its log. */
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

/** What ends the questions of a run that is put aside although its user has said something else meanwhile. */
export function supersedingOps({ queue, store, head }: ThreadState): WriteOp[] {
  return queue !== null && head !== null && queue.count("steer") > 0 ? [supersedeWaitsOp(store, head.thread_key)] : [];
}

/** The queue, when nothing is being repaired and no run is about to begin. */
async function openQueue(state: ThreadState): Promise<InputQueue> {
  await state.closing;
  await state.opening?.over();
  if (state.replaced) throw new SvcError("actor_lost");
  if (state.head === null && isReservedSuffix(state.suffix)) throw new SvcError("invalid_thread_id");
  state.queue ??= new InputQueue([]);
  return state.queue;
}

/** The conversation; one that is not there gets a row, and is in no list before an event is in it. */
async function existingThread(state: ThreadState, context: Context): Promise<ThreadRow> {
  // Who had the queue before may have found that the state is not what is stored.
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

/** Adds a row, in the place of others, and tells the run. A message that interrupts ends what the run asks at the moment. */
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

/** Takes rows out of the queue, and says how many wait then, `added` more than there are. */
function removalOps(state: ThreadState, queue: InputQueue, gone: readonly InputHead[], added = 0): WriteOp[] {
  const { store } = state;
  const head = state.head as ThreadRow;
  const ops = gone.map(({ number }) => unqueueInputOp(store, head.thread_key, number));
  return [...ops, queuedOp(store, head, queue.size - gone.length + added)];
}

/** Writes beside the live run, in the order of its batches, or alone while there is none. */
async function writeBeside(state: ThreadState, ops: () => WriteOp[], context: Context): Promise<void> {
  for (;;) {
    const { live, store } = state;
    try {
      if (live !== null) await live.note([], ops());
      else await store.write(ops(), requestMs);
      return;
    } catch (error) {
      const isTaken = error instanceof SvcError && error.code === "conflict";
      // A run that was put aside has been taken up meanwhile.
      if (live === null && isTaken && state.live !== null) continue;
      // It may be stored all the same: what is in memory is read again. A live run goes on from its own.
      if (live === null) dropState(state, context);
      throw error;
    }
  }
}

/** What waits, as the log keeps it. */
function entryOf({ kind, content, detail }: Pick<QueuedInput, "kind" | "content" | "detail">): LogEntry {
  const metadata: Record<string, unknown> =
    kind === "note" ? { ...detail?.metadata, in_context: true } : { type: kind };
  return { kind: kind === "note" ? "custom" : "message", role: "user", content, extra: { metadata } };
}

function numbersOf(inputs: readonly InputHead[]): number[] {
  return inputs.map(({ number }) => number);
}
