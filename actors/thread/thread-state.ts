import { topicOf } from "../../bus/address.ts";
import type { Store } from "../../storage/store/store.ts";
import { type LiveRun, liveRunOf } from "../../storage/tables/live-runs.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { loadBranch } from "../run/context/branch.ts";
import type { ContextMessage } from "../run/context/message.ts";
import type { Run } from "../run/run.ts";
import type { ThreadJournal } from "./thread-journal.ts";
import type { ThreadLog } from "./thread-log.ts";

/** A conversation in memory. What is not here is in the store, and everything here can be read from there again. */
export interface ThreadState extends ThreadLog {
  readonly suffix: string;
  /** Newest messages of the active branch, null when they are not loaded; `branchNeeded` says for how many it is enough. */
  branch: ContextMessage[] | null;
  branchNeeded: number;
  run: Run | null;
  journal: ThreadJournal | null;
  /** The run before, so that a submit that is asked again does not run again. */
  lastRunId: string;
  /** True when another state has taken this one's place. */
  replaced: boolean;
}

/** Loads a thread without its log. `live` is what a run that is no more has left behind. */
export async function loadThreadState(
  store: Store,
  tenantId: string,
  suffix: string,
): Promise<{ state: ThreadState; live: LiveRun | undefined }> {
  const tenant = store.tenant(tenantId);
  const head = (await threadBySuffix(tenant, suffix)) ?? null;
  const live = head === null ? undefined : await liveRunOf(tenant, head.thread_key);
  const threadId = `${tenantId}:${suffix}`;
  const state: ThreadState = {
    store: tenant,
    suffix,
    threadId,
    topic: topicOf({ kind: "thread", key: threadId }),
    head,
    committedSeq: head?.next_seq ?? 0,
    branch: null,
    branchNeeded: 0,
    run: null,
    journal: null,
    lastRunId: "",
    replaced: false,
  };
  return { state, live };
}

/** The newest messages of the active branch, at least `needed` of them if there are as many; with `withUser` the last of a user too. */
export async function branchOf(state: ThreadState, needed: number, withUser: boolean): Promise<ContextMessage[]> {
  const { branch: kept, head } = state;
  const isEnough = state.branchNeeded >= needed && (!withUser || kept?.some(({ role }) => role === "user"));
  if (kept !== null && isEnough) return kept;
  const branch = head === null ? [] : await loadBranch(state.store, head.thread_key, head.leaf_seq, needed, withUser);
  state.branch = branch;
  state.branchNeeded = needed;
  return branch;
}

/** Keeps what the next turn needs; a long conversation that is replayed in full is read again instead of kept. */
export function trimBranch(state: ThreadState): void {
  const { branch } = state;
  if (branch === null) return;
  if (Number.isFinite(state.branchNeeded)) {
    const extra = branch.length - state.branchNeeded;
    // Twice the window, so that the list is not copied at every turn.
    if (extra > state.branchNeeded) {
      let start = extra;
      while (start > 0 && branch[start]?.role === "tool") start--;
      state.branch = branch.slice(start);
    }
    return;
  }
  let characters = 0;
  for (const message of branch) characters += message.content.length;
  if (characters > keptCharactersMax) state.branch = null;
}

/** Text of one conversation that stays in memory between turns. */
const keptCharactersMax = 1_000_000;
