import { threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { tellNews } from "../../bus/protocol/news.ts";
import type { ForkedThread, ForkThread } from "../../bus/protocol/thread.ts";
import type { TenantStore, WriteOp } from "../../storage/store/store.ts";
import { branchBefore, branchRanges } from "../../storage/tables/branches.ts";
import { eventId, eventSeq, rangeBytes, readEvents, type SeqRange, threadUid } from "../../storage/tables/events.ts";
import { admitThreadBytes, writeFork } from "../../storage/tables/thread-quota.ts";
import { insertThreadOp, reviseOp, type ThreadRow, threadBySuffix } from "../../storage/tables/threads.ts";
import { disownOp, ownOp, touchOp } from "../../storage/tables/unowned-logs.ts";
import { branchEvents } from "../log/branch.ts";
import { threadFull } from "../log/thread-size.ts";
import type { ActorContext } from "../runtime/define.ts";
import { BranchCopy, isHandedOver } from "./branch-copy.ts";
import type { ThreadDeps } from "./deps.ts";
import { dropState } from "./open.ts";
import { holderOf, type ThreadState } from "./thread-state.ts";

/** Approximate max statements and characters of one batch: the store does nothing else while it writes one. */
const batchOps = 500;
const batchChars = 1024 * 1024;

/**
 * Copies a branch of another thread into this one (decision 96: up to the last event without open calls). The copy is written in
 * pages, and is visible only after the last one. Pages left by a crash are deleted later.
 */
export async function forkThread(
  state: ThreadState,
  { source, event_id, open_calls = false }: ForkThread,
  context: ActorContext<ThreadDeps>,
): Promise<ForkedThread> {
  const { bus, deps, env } = context;
  const { store, tenantId, suffix } = state;
  await state.opening?.over();
  await state.closing;
  if (state.replaced) throw new SvcError("actor_lost");
  if (source === suffix || state.head !== null || holderOf(state) !== undefined) throw new SvcError("thread_exists");
  const position = await bus.ask(threadAddress(tenantId, source), "attach", {});
  const from = await threadBySuffix(store, source);
  if (!from || position.next_seq === 0) throw new SvcError("unknown_thread");
  const named = event_id === null ? -1 : eventSeq(from.uid, event_id);
  const wanted = named >= 0 && named < position.next_seq ? named : position.leaf_seq;
  const leaf = await withoutOpenCalls(store, from.thread_key, wanted, open_calls);
  const branch = branchBefore(await branchRanges(store, from, leaf), leaf + 1);

  const now = env.now();
  const uid = threadUid(env.id());
  const thread_key = await deps.threadKeys.next();
  const { threadBytes, tenantThreadBytes } = deps.settings;
  const bytes = await rangeBytes(store, from.thread_key, branch);
  if (bytes > threadBytes) throw threadFull(deps.settings);
  if (tenantThreadBytes > 0) await admitThreadBytes(store, bytes, tenantThreadBytes);
  const copy = new BranchCopy(store, { thread_key, uid }, from, open_calls);
  await copyBranch(store, from.thread_key, branch, copy);
  if (await usesFilesOfThread(copy, from, deps, tenantId)) copy.noteFilesLeft(now);
  const { next_seq } = copy;
  const { thinking_level } = from.meta;
  const head: ThreadRow = {
    thread_key,
    suffix,
    uid,
    created_at: now,
    updated_at: now,
    next_seq,
    leaf_seq: next_seq - 1,
    bytes: copy.bytes,
    revision: 0,
    epoch: 0,
    manifest: from.manifest,
    model_id: from.model_id,
    session_name: null,
    preview: from.preview,
    parent_session_id: `${tenantId}:${source}`,
    meta: thinking_level === undefined ? {} : { thinking_level },
  };
  try {
    // The source must exist until the end, so that a copy does not restore a deleted thread.
    const made = [insertThreadOp(store, head), reviseOp(store, from.thread_key)];
    const last = [...copy.takeOps(), ...made, ...(copy.isBegun ? [ownOp(store, thread_key)] : [])];
    await writeFork(store, copy.bytes, tenantThreadBytes, last);
  } catch (error) {
    dropState(state, context);
    throw refusalOf(error);
  }
  state.head = head;
  state.unborn = null;
  state.committedSeq = next_seq;
  state.committedLeaf = head.leaf_seq;
  tellNews(bus, tenantId, () => ({ kind: "thread", thread_id: state.threadId, change: "updated" }));
  return { copied: copy.copied, leaf_id: next_seq === 0 ? null : eventId(uid, head.leaf_seq) };
}

/** Writes all pages but the last. */
async function copyBranch(store: TenantStore, fromKey: number, branch: readonly SeqRange[], copy: BranchCopy) {
  const events = (branch.at(-1)?.to ?? 0) + 1;
  for (const { from, to } of branch) {
    for (let seq = from; seq < to; ) {
      const page = await readEvents(store, fromKey, seq, to);
      const last = page.at(-1);
      if (!last) throw new SvcError("unknown_thread");
      for (const event of page) copy.take(event);
      seq = last.seq + 1;
      if (copy.waiting < batchOps && copy.waitingChars < batchChars) continue;
      const { thread_key } = copy.into;
      const mark: WriteOp = copy.isBegun
        ? touchOp(store, thread_key)
        : disownOp(store, { thread_key, events, runs: 0 });
      copy.isBegun = true;
      await store.write([mark, ...copy.takeOps()]);
    }
  }
}

/**
 * Returns the event itself, or the one before a reply that has calls without results. With `keepHanded`, calls that were sent to
 * a client need no results.
 */
async function withoutOpenCalls(
  store: TenantStore,
  threadKey: number,
  leaf: number,
  keepHanded: boolean,
): Promise<number> {
  const answered = new Set<string | undefined>();
  for await (const { kind, extra, parent_seq } of branchEvents(store, threadKey, leaf, 32)) {
    if (kind === "tool_result" || (keepHanded && isHandedOver(kind, extra))) answered.add(extra?.tool_call_id);
    if (kind !== "message") continue;
    const isOpen = extra?.tool_calls?.some(({ id }) => !answered.has(id)) ?? false;
    return isOpen ? parent_seq : leaf;
  }
  return leaf;
}

/** True if the branch used files that belong to the source thread only. */
async function usesFilesOfThread(copy: BranchCopy, from: ThreadRow, { manifests }: ThreadDeps, tenantId: string) {
  if (!copy.files.used || from.manifest === null) return false;
  // The agent may be deleted; then the location of the files is unknown.
  const agent = await manifests.resolve(tenantId, from.manifest, from.suffix).catch(() => null);
  return agent?.workspaceScope === "thread";
}

function refusalOf(error: unknown): unknown {
  if (!(error instanceof SvcError) || error.code !== "conflict") return error;
  if (error.details.subject === "threads_insert") return new SvcError("thread_exists");
  return error.details.subject === "thread_revise" ? new SvcError("unknown_thread") : error;
}
