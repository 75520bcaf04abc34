import { type Address, splitThreadId, topicOf } from "../../bus/address.ts";
import type { Store } from "../../storage/store/store.ts";
import { type InterruptedRun, interruptedRun } from "../../storage/tables/abandoned-runs.ts";
import { queuedHeads } from "../../storage/tables/queued-inputs.ts";
import { type RunRow, waitingRun } from "../../storage/tables/runs.ts";
import { threadToLoad } from "../../storage/tables/threads.ts";
import { attachmentsOf } from "../log/attachment.ts";
import { addEvents, loadBranch } from "../log/branch.ts";
import { attachedLength, type ContextMessage, messageLength } from "../log/message.ts";
import type { OpenLog } from "../log/messages.ts";
import { branchBytesOf, loadedBytesMax } from "../log/thread-size.ts";
import { uncountedBytes } from "../runtime/context-memory.ts";
import type { EventLogWriter } from "./event-log-writer.ts";
import { InputQueue } from "./input-queue.ts";
import type { EventLogState } from "./log-state.ts";
import type { Opening } from "./opening.ts";

/** The in-memory state of a thread. It is a cache: everything can be reloaded from the store. */
export interface ThreadState extends EventLogState {
  readonly tenantId: string;
  readonly suffix: string;
  /** The newest messages of the active branch, null if not loaded; `branchNeeded` is the number for which they suffice. */
  branch: ContextMessage[] | null;
  branchNeeded: number;
  /** The run that has opened the log and not begun yet. */
  opening: Opening | null;
  /** The writer of the live run. */
  live: EventLogWriter | null;
  /** The suspended run; no other run may start. */
  suspended: RunRow | null;
  /** Set while a vanished run is being closed. */
  closing: Promise<void> | null;
  /** Set while a write outside the runs is in progress. */
  noting: Promise<unknown> | null;
  /** Queued inputs; null if there were none since the thread was loaded. */
  queue: InputQueue | null;
  /** Set while an abandoned branch is being summarized. */
  summary: { cancel(): void } | null;
  /** The previous run, so that a repeated start does not run it again. */
  lastRunId: string;
  /** Number and id prefix of a thread that is not stored yet. */
  unborn: { readonly thread_key: number; readonly uid: string } | null;
  /** True if a newer state has replaced this one. */
  replaced: boolean;
}

/** Loads a thread without its log. `left` is an interrupted run. */
export async function loadThreadState(
  store: Store,
  address: Address<"thread">,
): Promise<{ state: ThreadState; left: InterruptedRun | undefined }> {
  const { tenantId, suffix } = splitThreadId(address.key);
  const tenant = store.tenant(tenantId);
  const { thread: head, queued } = (await threadToLoad(tenant, suffix)) ?? { thread: null, queued: 0 };
  const left = head === null ? undefined : await interruptedRun(tenant, head.thread_key);
  const suspended = head === null || left ? undefined : await waitingRun(tenant, head.thread_key);
  const queue = head === null || queued === 0 ? null : new InputQueue(await queuedHeads(tenant, head.thread_key));
  const state: ThreadState = {
    store: tenant,
    tenantId,
    suffix,
    threadId: address.key,
    topic: topicOf(address),
    head,
    committedSeq: head?.next_seq ?? 0,
    committedLeaf: head?.leaf_seq ?? -1,
    branch: null,
    branchNeeded: 0,
    recent: null,
    opening: null,
    live: null,
    suspended: suspended ?? null,
    closing: null,
    noting: null,
    queue,
    summary: null,
    lastRunId: "",
    unborn: null,
    replaced: false,
  };
  return { state, left };
}

/**
 * Returns the bytes of the log that a run will load; 0 if too few to count. Refuses with thread_too_large above the limit of a
 * turn.
 */
export function loadedBytes(
  state: ThreadState,
  { needed, withUser, compacts }: Pick<OpenLog, "needed" | "withUser" | "compacts">,
): number | Promise<number> {
  const { head, store } = state;
  if (head === null || head.bytes <= uncountedBytes) return 0;
  if (compacts) return Math.min(head.bytes, loadedBytesMax);
  const kept = keptEnough(state, needed, withUser);
  if (kept !== null) return kept.reduce((sum, message) => sum + messageLength(message), 0);
  return branchBytesOf(store, head, needed, withUser);
}

/**
 * Returns the newest messages of the active branch, at least `needed` if there are as many; with `withUser`, back to a user's
 * message.
 */
export function branchOf(
  state: ThreadState,
  needed: number,
  withUser: boolean,
): readonly ContextMessage[] | Promise<readonly ContextMessage[]> {
  const { head } = state;
  const kept = keptEnough(state, needed, withUser);
  if (kept !== null) return kept;
  const keep = (branch: ContextMessage[]): readonly ContextMessage[] => {
    state.branch = branch;
    state.branchNeeded = needed;
    state.recent = [];
    return branch;
  };
  if (head === null) return keep([]);
  return loadBranch(state.store, head.thread_key, head.leaf_seq, needed, withUser).then(keep);
}

/** Returns the messages in memory if they suffice; otherwise null. */
function keptEnough(state: ThreadState, needed: number, withUser: boolean): ContextMessage[] | null {
  const kept = keptBranch(state);
  const isEnough = state.branchNeeded >= needed && (!withUser || kept?.some(({ role }) => role === "user"));
  return kept !== null && isEnough ? kept : null;
}

/** Returns the messages in memory with new events. A grown list is a new array, because runs hold earlier ones. */
function keptBranch(state: ThreadState): ContextMessage[] | null {
  const { branch, recent } = state;
  if (branch === null || recent === null) return null;
  if (recent.length === 0) return branch;
  state.recent = [];
  state.branch = addEvents(branch, recent);
  return state.branch;
}

/** Keeps the messages that the next turn needs. A long thread that is always read in full is reloaded instead. */
export function trimBranch(state: ThreadState): void {
  const { branch, recent } = state;
  if (recent === null) state.branch = null;
  if (branch === null || recent === null) return;
  let characters = 0;
  for (const message of branch) characters += messageLength(message);
  for (const { content, extra } of recent) characters += content.length + attachedLength(attachmentsOf(extra));
  if (characters > keptCharactersMax) {
    state.branch = null;
    state.recent = null;
  } else if (Number.isFinite(state.branchNeeded)) {
    // Trim only at twice the window, so that the list is not copied at every turn.
    if (branch.length + recent.length > 2 * state.branchNeeded) {
      const all = keptBranch(state) as ContextMessage[];
      let start = Math.max(0, all.length - state.branchNeeded);
      while (start > 0 && all[start]?.role === "tool") start--;
      state.branch = all.slice(start);
    }
  }
}

/** Max characters of one thread kept in memory between turns. */
const keptCharactersMax = 128 * 1024;

/** Drops the messages in memory after the active branch changed. */
export function forgetBranch(state: ThreadState): void {
  state.branch = null;
  state.branchNeeded = 0;
  state.recent = null;
}

/** Returns the run that has the thread: live, about to begin, or suspended. */
export function holderOf({ live, opening, suspended }: ThreadState): string | undefined {
  return live?.runId ?? opening?.runId ?? suspended?.run_id;
}
