import { SvcError } from "../../bus/errors.ts";
import { rewoundMark } from "../../bus/frames/frames.ts";
import type { BranchSummary, RewindThread, RewoundThread } from "../../bus/protocol/thread.ts";
import { admit } from "../../governance/auth/inbound.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import { requestMs } from "../../storage/store/store.ts";
import { branchRanges } from "../../storage/tables/branches.ts";
import { eventId, eventSeq } from "../../storage/tables/events.ts";
import { runsMax } from "../../storage/tables/runs.ts";
import { rewindOp, type ThreadRow } from "../../storage/tables/threads.ts";
import type { ActorContext } from "../runtime/define.ts";
import { BranchSummarizer } from "./branch-summary.ts";
import type { ThreadDeps } from "./deps.ts";
import { dropState } from "./open.ts";
import { forgetBranch, holderOf, type ThreadState } from "./thread-state.ts";

/**
 * Moves the leaf to an earlier event on any branch. Nothing is deleted. Subscribers receive a mark. The abandoned branch is
 * summarized in the background, while the thread stays usable.
 */
export async function rewindThread(
  state: ThreadState,
  asked: RewindThread,
  context: ActorContext<ThreadDeps>,
): Promise<RewoundThread> {
  await state.closing;
  if (state.replaced) throw new SvcError("actor_lost");
  const run_id = holderOf(state);
  if (run_id !== undefined) throw new SvcError("run_in_progress", { subject: run_id });
  const { head, store } = state;
  const seq = head === null ? -1 : eventSeq(head.uid, asked.event_id);
  if (head === null || seq < 0 || seq >= head.next_seq) throw new SvcError("unknown_event_id");
  const leaf_id = eventId(head.uid, seq);
  const agent = await summingAgent(head, asked, state, context.deps);
  if (seq === head.leaf_seq) return { leaf_id, summarizing: false };
  const epoch = head.epoch + 1;
  if (epoch >= runsMax) throw new SvcError("storage_unavailable", { subject: "thread_full" });
  const meta = { ...head.meta, rewound_at: head.next_seq, rewound_to: seq };
  const rewound: ThreadRow = { ...head, epoch, meta, leaf_seq: seq, updated_at: context.env.now() };
  try {
    await store.write([rewindOp(store, rewound, head.epoch)], requestMs);
  } catch (error) {
    dropState(state, context);
    throw error;
  }
  state.head = rewound;
  state.committedLeaf = seq;
  forgetBranch(state);
  if (context.bus.hasSubscribers(state.topic)) context.bus.publish(state.topic, rewoundMark);
  state.summary?.cancel();
  if (agent === undefined) return { leaf_id, summarizing: false };
  const kept = await branchRanges(store, rewound, seq);
  startSummary(state, asked, { agent, head: rewound, left: head.leaf_seq, kept }, context);
  return { leaf_id, summarizing: true };
}

/** The input of a summary. */
interface LeftBranch {
  /** Null if there is no model to call. */
  readonly agent: CompiledAgent | null;
  readonly head: ThreadRow;
  /** The leaf of the abandoned branch. */
  readonly left: number;
  readonly kept: Awaited<ReturnType<typeof branchRanges>>;
}

/**
 * Returns the agent whose model summarizes the abandoned branch: null if there is none, undefined if no summary is wanted.
 * Refuses like a turn of this caller. A deleted manifest that the request does not name counts as none.
 */
async function summingAgent(
  { manifest: last }: ThreadRow,
  { manifest, summarize, principal }: RewindThread,
  { tenantId, suffix }: ThreadState,
  { manifests }: ThreadDeps,
): Promise<CompiledAgent | null | undefined> {
  if (summarize === false) return undefined;
  const name = manifest ?? last;
  if (name === null) return null;
  let agent: CompiledAgent;
  try {
    agent = await manifests.resolve(tenantId, name, suffix);
  } catch (error) {
    if (manifest !== null || !(error instanceof SvcError) || error.code === "storage_unavailable") throw error;
    return null;
  }
  if (!(summarize ?? agent.manifest.spec.session.branch_summary)) return undefined;
  admit(principal, agent.inbound);
  return agent;
}

const notKept = { event_id: null };

/** Summarizes the abandoned branch and sends the result over the channel. The thread owns the work but does not wait for it. */
function startSummary(
  state: ThreadState,
  asked: RewindThread,
  { agent, head, left, kept }: LeftBranch,
  { env, bus, deps }: ActorContext<ThreadDeps>,
): void {
  const { store, threadId } = state;
  const plan = { agent, store, threadId, thread: head, left, kept, instructions: asked.instructions };
  const summarizer = new BranchSummarizer(
    { ...plan, subject: asked.principal.sub, request_id: asked.request_id },
    env,
    deps,
  );
  state.summary = summarizer;
  deps.liveRuns.add(summarizer);
  const fromId = eventId(head.uid, left);
  const { rewound_at = -1, rewound_to = -1 } = head.meta;
  const rewoundAt = { thread_key: head.thread_key, rewound_at, rewound_to };
  const finish = async (): Promise<BranchSummary> => {
    const { ok, usage, ops, ...text } = await summarizer.summary;
    const made = { ...rewoundAt, ...text, fromId, usage, ops };
    const { event_id } = await bus.ask({ kind: "thread", key: threadId }, "summarized", made).catch(() => notKept);
    // The usage counts even if the summary was not stored.
    if (event_id === null && ops.length > 0) await store.write(ops).catch(() => {});
    return { ...text, ok: ok && event_id !== null, event_id, fromId };
  };
  void finish()
    .catch((error: unknown): BranchSummary => {
      deps.log.error({ err: error, thread: threadId }, "a branch could not be summarised");
      return { ok: false, summary: "", event_id: null, fromId, details: { readFiles: [], modifiedFiles: [] } };
    })
    .then((summary) => {
      if (state.summary === summarizer) state.summary = null;
      deps.liveRuns.delete(summarizer);
      bus.channel(asked.channel).send(JSON.stringify(summary), true);
    });
}
