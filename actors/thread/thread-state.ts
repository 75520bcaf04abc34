import { type Address, splitThreadId, topicOf } from "../../bus/address.ts";
import type { Store } from "../../storage/store/store.ts";
import { queuedHeads } from "../../storage/tables/queued-inputs.ts";
import { type InterruptedRun, interruptedRun, type RunRow, waitingRun } from "../../storage/tables/runs.ts";
import { threadToLoad } from "../../storage/tables/threads.ts";
import { attachmentsOf } from "../log/attachment.ts";
import { addEvents, loadBranch } from "../log/branch.ts";
import { attachedLength, type ContextMessage, messageLength } from "../log/message.ts";
import type { OpenLog } from "../log/messages.ts";
import { branchBytesOf, loadedBytesMax } from "../log/thread-size.ts";
import { uncountedBytes } from "../runtime/context-memory.ts";
import { InputQueue } from "./input-queue.ts";
import type { EventLogState } from "./log-state.ts";
import type { EventLogWriter } from "./log-writer.ts";
import type { Opening } from "./opening.ts";

/** A conversation in memory. What is not here is in the store, and everything here can be read from there again. */
export interface ThreadState extends EventLogState {
  readonly tenantId: string;
  readonly suffix: string;
  /** Newest messages of the active branch, null when they are not loaded; `branchNeeded` says for how many it is enough. */
  branch: ContextMessage[] | null;
  branchNeeded: number;
  /** The run that has opened the log and not begun yet. */
  opening: Opening | null;
  /** What the live run writes with. */
  live: EventLogWriter | null;
  /** The run that was put aside: nobody else may start. */
  suspended: RunRow | null;
  /** A run that is gone is being closed. */
  closing: Promise<void> | null;
  /** Something beside the runs is being written. */
  noting: Promise<unknown> | null;
  /** What waits for a run; null when nothing has since the thread was loaded. */
  queue: InputQueue | null;
  /** A branch that was left is being summed up. */
  summary: { cancel(): void } | null;
  /** The run before, so that one that is started again does not run again. */
  lastRunId: string;
  /** What a conversation that is not stored yet will be called by the store. */
  unborn: { readonly thread_key: number; readonly uid: string } | null;
  /** True when another state has taken this one's place. */
  replaced: boolean;
}

/** Loads a thread without its log. `left` is what a run that is no more has left behind. */
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
 * Bytes that a run is given of the log as `branchOf` answers it, 0 where they are not worth being counted. Refuses with thread_too_large
 * what is more than a turn may load.
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

/** The newest messages of the active branch, at least `needed` of them if there are as many; with `withUser` the last of a user too. */
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

/** The branch in memory if it is long enough; else null. */
function keptEnough(state: ThreadState, needed: number, withUser: boolean): ContextMessage[] | null {
  const kept = keptBranch(state);
  const isEnough = state.branchNeeded >= needed && (!withUser || kept?.some(({ role }) => role === "user"));
  return kept !== null && isEnough ? kept : null;
}

/** What is in memory, with what was written since. A new list when it has grown: earlier ones have been given away. */
function keptBranch(state: ThreadState): ContextMessage[] | null {
  const { branch, recent } = state;
  if (branch === null || recent === null) return null;
  if (recent.length === 0) return branch;
  state.recent = [];
  state.branch = addEvents(branch, recent);
  return state.branch;
}

/** Keeps what the next turn needs; a long conversation that is replayed in full is read again instead of kept. */
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
    // Twice the window, so that the list is not copied at every turn.
    if (branch.length + recent.length > 2 * state.branchNeeded) {
      const all = keptBranch(state) as ContextMessage[];
      let start = Math.max(0, all.length - state.branchNeeded);
      while (start > 0 && all[start]?.role === "tool") start--;
      state.branch = all.slice(start);
    }
  }
}

/** Text of one conversation that stays in memory between turns. */
const keptCharactersMax = 128 * 1024;

/** Forgets the messages in memory: the active branch is another one. */
export function forgetBranch(state: ThreadState): void {
  state.branch = null;
  state.branchNeeded = 0;
  state.recent = null;
}

/** The run that has the thread, if one has: it is live, about to begin, or put aside. */
export function holderOf({ live, opening, suspended }: ThreadState): string | undefined {
  return live?.runId ?? opening?.runId ?? suspended?.run_id;
}
