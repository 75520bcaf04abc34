import { threadAddress } from "../bus/address.ts";
import type { Principal } from "../bus/protocol/principal.ts";
import type { ThreadPosition } from "../bus/protocol/thread.ts";
import { readableThinking } from "../storage/frames/session-event.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { branchRanges, isOnBranch } from "../storage/tables/branches.ts";
import { durableRunById } from "../storage/tables/durable-runs.ts";
import { marksMax, readFeedback, readLabels } from "../storage/tables/event-marks.ts";
import { eventId, eventsMax, type LogEvent, readEvents, type SeqRange } from "../storage/tables/events.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import type { BacklogReader } from "./backlog/backlogs.ts";
import { type PageMaker, pieceBytes } from "./backlog/shared-pages.ts";
import type { HttpContext } from "./context.ts";
import type { Pieces } from "./exchange/reply.ts";
import { heldThread } from "./lease.ts";
import { LogFacts } from "./log-facts.ts";
import { type Asked, openQuestions, questionsTold, seesApprovals } from "./open-questions.ts";

// The snapshot of a conversation, made page by page: a long one is neither held in memory nor read at once. Facts that are known only after
// the whole log was read come at the end of the object.

/** The state that a snapshot shows: a conversation at a position of its log. */
export interface SnapshotOf extends Omit<ThreadPosition, "run_id" | "durable_run"> {
  readonly threadId: string;
  /** Null if the thread does not exist. */
  readonly thread: ThreadRow | null;
  readonly isLive: boolean;
  /** The live durable run; null or absent if there is none. */
  readonly activeRun?: ActiveRun | null;
  /** `attached`: the conversation has a lease. `locked`: a client holds the exclusive lease. */
  readonly attached?: boolean;
  readonly locked?: boolean;
  /** True to show the whole log as a tree, and not only the active branch. */
  readonly allBranches?: boolean;
  /** Open questions that the reader may see; absent for streams, which send them as frames. */
  readonly asked?: readonly Asked[];
  /** Text before and after the snapshot. */
  readonly before?: string;
  readonly after?: string;
}

/** The durable run in a snapshot. */
interface ActiveRun {
  readonly resumeToken: string;
  readonly status: string;
  readonly expiresAt: number;
}

/** Returns the live durable run of a thread; null if it has ended. */
export async function activeRun(
  store: TenantStore,
  { durable_run }: Pick<ThreadPosition, "durable_run">,
): Promise<ActiveRun | null> {
  const found = durable_run === null ? undefined : await durableRunById(store, durable_run);
  if (found === undefined || found.durable.ended_at !== null) return null;
  const { durable, run } = found;
  return { resumeToken: durable.run_id, status: run.status, expiresAt: durable.expires_at };
}

/** Returns the cache key of a snapshot: two with the same key are identical, byte by byte. */
export function snapshotState({ threadId, thread, before = "", ...of }: SnapshotOf): string {
  const { next_seq, leaf_seq, isLive, attached = false, locked = false, summarizing, compacting, continuing } = of;
  const { allBranches = false, asked = [] } = of;
  // A thread that was deleted and created again has another uid, and each change raises its revision.
  const queued = [of.queued_steers, of.queued_follow_ups];
  const position = [
    next_seq,
    leaf_seq,
    isLive,
    attached,
    locked,
    summarizing,
    compacting,
    continuing,
    ...queued,
    of.activeRun ?? null,
    allBranches,
    // Questions of tasks do not change the thread itself, so the key includes them.
    ...asked.map(({ data }) => [data.approval_id, data.tool_call_id, data.id, data.request_id]),
  ];
  return JSON.stringify([threadId, thread?.uid, thread?.revision, ...position, before]);
}

/** Offsets of the pages of labels and ratings: a page is named by its offset plus the sequence number of its first event. */
const labelsAt = eventsMax;
const feedbackAt = 2 * eventsMax;

/** A part of the text, and the start of the next part. */
type Page = Awaited<ReturnType<PageMaker["make"]>>;

/** Makes the JSON of a snapshot page by page: first the transcript, then the labels, then the ratings. */
export class SnapshotMaker implements PageMaker {
  readonly first = 0;
  readonly #store: TenantStore;
  readonly #of: SnapshotOf;
  readonly #facts = new LogFacts();
  /** Events below this number were counted already; a page may be made more than once. */
  #factsUpTo = 0;
  #tail: string | null = null;
  #branch: Promise<SeqRange[]> | null = null;

  constructor(store: TenantStore, of: SnapshotOf) {
    this.#store = store;
    this.#of = of;
  }

  async make(from: number): Promise<Page> {
    const { before = "", after = "" } = this.#of;
    let text = from === 0 ? `${before}${JSON.stringify(headOf(this.#of)).slice(0, -1)},"transcript":[` : "";
    let next: number | null = from;
    // Labels and ratings are nearly always short, so they join the last page of the transcript.
    do {
      const part: Page = await this.#part(next);
      text += part.text;
      next = part.next;
    } while (next === labelsAt || next === feedbackAt);
    return { text: next === null ? text + after : text, next };
  }

  #part(from: number): Promise<Page> {
    const { thread } = this.#of;
    if (from < labelsAt) return this.#transcript(from);
    if (from < feedbackAt)
      return membersPart(from - labelsAt, thread, (key, seq) => readLabels(this.#store, key, seq), {
        told: ({ label }) => label,
        at: labelsAt,
        end: '},"feedback":{',
        next: feedbackAt,
      });
    this.#tail ??= `},${this.#end()}`;
    return membersPart(from - feedbackAt, thread, (key, seq) => readFeedback(this.#store, key, seq), {
      told: ({ rating, note, at }) => ({ rating, note, at }),
      at: feedbackAt,
      end: this.#tail,
      next: null,
    });
  }

  async #transcript(from: number): Promise<{ text: string; next: number }> {
    const end = { text: '],"labels":{', next: labelsAt };
    const { thread, next_seq, leaf_seq, allBranches } = this.#of;
    if (thread === null) return end;
    this.#branch ??= branchRanges(this.#store, thread, leaf_seq);
    const active = await this.#branch;
    const ranges = allBranches ? [{ from: 0, to: next_seq }] : active;
    const at = ranges.findIndex(({ to }) => to > from);
    const range = ranges[at];
    if (range === undefined) return end;
    const start = Math.max(from, range.from);
    const page = await readEvents(this.#store, thread.thread_key, start, range.to, pieceBytes);
    let text = "";
    for (const event of page) {
      const { seq } = event;
      if (seq >= this.#factsUpTo && (!allBranches || isOnBranch(active, seq))) this.#facts.take(event);
      this.#factsUpTo = Math.max(this.#factsUpTo, seq + 1);
      text += `${seq === 0 ? "" : ","}${JSON.stringify(transcriptItem(thread.uid, event))}`;
    }
    const last = page.at(-1);
    // The thread was deleted during the read.
    if (!last) return end;
    const next = last.seq + 1 < range.to ? last.seq + 1 : ranges[at + 1]?.from;
    return next === undefined ? { text: text + end.text, next: end.next } : { text, next };
  }

  /** Returns the fields that need the whole log. */
  #end(): string {
    const { thread, next_seq, leaf_seq, isLive, summarizing, compacting, continuing, asked } = this.#of;
    const { wake, todos, aborted } = this.#facts.of(next_seq);
    const isBusy = isLive || wake.pendingToolCalls.length > 0;
    const phase = phaseOf({ compacting, continuing, isBusy, summarizing, aborted });
    const leafId = thread === null || leaf_seq < 0 ? null : eventId(thread.uid, leaf_seq);
    return JSON.stringify({ leafId, phase, wake, todos, ...(asked && { openQuestions: questionsTold(asked) }) }).slice(
      1,
    );
  }
}

/** Returns the current activity of a conversation; the first that applies. */
function phaseOf(is: Readonly<Record<"compacting" | "continuing" | "isBusy" | "summarizing" | "aborted", boolean>>) {
  if (is.compacting) return "compaction";
  if (is.continuing) return "retry";
  if (is.isBusy) return "turn";
  if (is.summarizing) return "branch_summary";
  return is.aborted ? "aborted" : "idle";
}

/** Returns the members of an object by event id, from `seq` on, with `end` after the last. */
async function membersPart<T extends { readonly seq: number }>(
  seq: number,
  thread: ThreadRow | null,
  read: (threadKey: number, seq: number) => Promise<readonly T[]>,
  { told, at, end, next }: { told: (mark: T) => unknown; at: number; end: string; next: number | null },
): Promise<Page> {
  if (thread === null) return { text: end, next };
  const marks = await read(thread.thread_key, seq);
  const pairs = marks.map((mark) => `"${eventId(thread.uid, mark.seq)}":${JSON.stringify(told(mark))}`).join(",");
  // On later pages, members precede these.
  const text = seq > 0 && pairs !== "" ? `,${pairs}` : pairs;
  const last = marks.at(-1);
  if (last && marks.length === marksMax && last.seq + 1 < eventsMax) return { text, next: at + last.seq + 1 };
  return { text: text + end, next };
}

function headOf({
  threadId,
  thread,
  queued_steers,
  queued_follow_ups,
  attached = false,
  locked = false,
  activeRun = null,
}: SnapshotOf) {
  return {
    id: threadId,
    name: thread?.session_name ?? null,
    parentSessionId: thread?.parent_session_id ?? null,
    createdAt: thread?.created_at ?? null,
    // 0 means that the thread has no message yet.
    updatedAt: thread?.updated_at || null,
    model: thread?.model_id == null ? null : { id: thread.model_id },
    manifest: thread?.manifest ?? null,
    thinkingLevel: thread?.meta.thinking_level ?? "off",
    permissionMode: thread?.meta.permission_mode ?? "default",
    outputStyle: thread?.meta.output_style ?? null,
    attached,
    locked,
    revision: thread?.revision ?? 0,
    // The texts of queued messages stay hidden until the run reads them.
    queuedSteer: Array.from({ length: queued_steers }, () => ({ placeholder: true })),
    queuedSteerCount: queued_steers,
    queuedFollowUpCount: queued_follow_ups,
    activeRun,
  };
}

function transcriptItem(uid: string, event: LogEvent) {
  const { extra } = event;
  const { thinking: blocks, origin_request: _origin, ...metadata } = extra?.metadata ?? {};
  const thinking = readableThinking(blocks);
  return {
    id: eventId(uid, event.seq),
    seq: event.seq,
    parentId: event.parent_seq < 0 ? null : eventId(uid, event.parent_seq),
    kind: event.kind,
    role: event.role,
    content: event.content,
    timestamp: event.ts,
    status: typeof metadata.status === "string" ? metadata.status : "complete",
    metadata: thinking === null ? metadata : { ...metadata, thinking },
    ...(extra?.tool_call_id === undefined ? {} : { toolCallId: extra.tool_call_id }),
    ...(extra?.name === undefined ? {} : { toolName: extra.name }),
    ...(extra?.tool_calls === undefined ? {} : { toolCalls: extra.tool_calls }),
    ...(metadata.usage === undefined ? {} : { usage: metadata.usage }),
  };
}

/** Returns the current snapshot in pieces, with the given text around it. */
export function currentSnapshot(
  context: HttpContext,
  principal: Principal,
  suffix: string,
  { before = "", after = "", allBranches = false }: Pick<SnapshotOf, "before" | "after" | "allBranches"> = {},
): Pieces {
  const { backlogs, bus } = context;
  const { tenant_id: tenantId } = principal;
  const address = threadAddress(tenantId, suffix);
  const ticket = backlogs.ticket(tenantId);
  let reader: BacklogReader | null = null;
  let over = false;
  const close = (): void => {
    over = true;
    reader?.close();
    ticket.leave();
  };
  async function open(): Promise<BacklogReader> {
    const { run_id, durable_run, ...position } = await bus.ask(address, "attach", {});
    const store = context.store.tenant(tenantId);
    const thread = (await threadBySuffix(store, suffix)) ?? null;
    const held = thread === null ? null : await heldThread(store, thread);
    const asked = await openQuestions(store, thread, seesApprovals(principal));
    const active = await activeRun(store, { durable_run });
    const shown = { ...held, activeRun: active, isLive: run_id !== null, allBranches, asked, before, after };
    const of = { threadId: address.key, thread, ...position, ...shown };
    return backlogs.read(ticket, snapshotState(of), () => new SnapshotMaker(store, of));
  }
  return {
    async next() {
      try {
        reader ??= await open();
        if (over) reader.close();
        const value = await reader.next();
        if (value !== null) return { done: false, value };
      } catch (error) {
        close();
        throw error;
      }
      close();
      return { done: true, value: undefined };
    },
    async return() {
      close();
      return { done: true, value: undefined };
    },
  };
}
