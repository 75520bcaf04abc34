import { type Address, splitThreadId } from "../bus/address.ts";
import { todosOf } from "../bus/frames/todos.ts";
import { readableThinking } from "../storage/frames/session-event.ts";
import type { TenantStore } from "../storage/store/store.ts";
import { eventId, type LogEvent, readEvents, type ToolCall } from "../storage/tables/events.ts";
import { type ThreadRow, threadBySuffix } from "../storage/tables/threads.ts";
import type { HttpContext } from "./context.ts";
import type { Pieces } from "./exchange/reply.ts";
import type { PastReader } from "./past/pasts.ts";
import { type PageMaker, pieceBytes } from "./past/shared-pages.ts";

// The snapshot of a conversation (shapes: session snapshot), made a page of events at a time: a long one is neither held in
// memory nor read in one go. What is known only at the end of the log comes at the end of the object.

/** What a snapshot shows. */
export interface SnapshotOf {
  readonly threadId: string;
  /** Null for one that does not exist. */
  readonly thread: ThreadRow | null;
  /** One past the last event that it shows. */
  readonly upTo: number;
  readonly isLive: boolean;
  /** What stands around it. */
  readonly before?: string;
  readonly after?: string;
}

/** Names what the snapshot shows: two of the same name are the same, byte by byte. */
export function snapshotState({ threadId, thread, upTo, isLive, before = "" }: SnapshotOf): string {
  // A thread that was erased and is there again has another uid, and what changes it raises its revision.
  return JSON.stringify([threadId, thread?.uid, thread?.revision, upTo, isLive, before]);
}

/** Makes the JSON of a snapshot page by page. */
export class SnapshotMaker implements PageMaker {
  readonly first = 0;
  readonly #store: TenantStore;
  readonly #of: SnapshotOf;
  readonly #facts = new LogFacts();
  /** Events below it are in the facts: pages may be made again. */
  #factsUpTo = 0;
  #tail: string | null = null;

  constructor(store: TenantStore, of: SnapshotOf) {
    this.#store = store;
    this.#of = of;
  }

  async make(from: number): Promise<{ text: string; next: number | null }> {
    const { threadId, thread, upTo, before = "", after = "" } = this.#of;
    const page = thread === null || from >= upTo ? [] : await this.#read(thread, from);
    let text = from === 0 ? `${before}${JSON.stringify(headOf(threadId, thread)).slice(0, -1)},"transcript":[` : "";
    for (const event of page) {
      if (event.seq >= this.#factsUpTo) {
        this.#facts.take(event);
        this.#factsUpTo = event.seq + 1;
      }
      text += `${event.seq === 0 ? "" : ","}${JSON.stringify(transcriptItem((thread as ThreadRow).uid, event))}`;
    }
    const last = page.at(-1);
    if (last && last.seq + 1 < upTo) return { text, next: last.seq + 1 };
    this.#tail ??= `],${this.#end()}`;
    return { text: `${text}${this.#tail}${after}`, next: null };
  }

  #read(thread: ThreadRow, from: number): Promise<LogEvent[]> {
    return readEvents(this.#store, thread.thread_key, from, this.#of.upTo, pieceBytes);
  }

  /** What is known when all was read. */
  #end(): string {
    const { thread, upTo, isLive } = this.#of;
    const leafSeq = thread === null ? -1 : Math.min(thread.leaf_seq, upTo - 1);
    const { wake, todos, aborted } = this.#facts.of(leafSeq, upTo);
    const phase = isLive ? "turn" : aborted ? "aborted" : "idle";
    const leafId = thread === null || leafSeq < 0 ? null : eventId(thread.uid, leafSeq);
    return JSON.stringify({ leafId, phase, wake, todos }).slice(1);
  }
}

function headOf(threadId: string, thread: ThreadRow | null) {
  return {
    id: threadId,
    name: thread?.session_name ?? null,
    parentSessionId: thread?.parent_session_id ?? null,
    createdAt: thread?.created_at ?? null,
    // 0 stands for a thread in which nothing was said.
    updatedAt: thread?.updated_at || null,
    model: thread?.model_id == null ? null : { id: thread.model_id },
    manifest: thread?.manifest ?? null,
    thinkingLevel: thread?.meta.thinking_level ?? "off",
    permissionMode: "default",
    outputStyle: thread?.meta.output_style ?? null,
    attached: false,
    locked: false,
    revision: thread?.revision ?? 0,
    labels: thread?.meta.labels ?? {},
    feedback: thread?.meta.feedback ?? {},
    queuedSteer: [],
    queuedSteerCount: 0,
    activeRun: null,
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

/** A call that a reply has asked for: whether it went well, null while it has no result. */
interface CallFact {
  readonly call: ToolCall;
  ok: boolean | null;
}

/** What an event says of calls: that they are asked for, or what came of one. */
type CallEvent = { readonly calls: readonly ToolCall[] } | { readonly id: string; readonly ok: boolean };

/** What a snapshot tells of the log as a whole, gathered while it is read. */
class LogFacts {
  readonly #parents: number[] = [];
  /** By sequence number, in its order. */
  readonly #calls = new Map<number, CallEvent>();
  readonly #messages = new Map<number, { assistant: boolean; aborted: boolean }>();

  take(event: LogEvent): void {
    this.#parents[event.seq] = event.parent_seq;
    const { extra } = event;
    if (event.kind === "message" && (event.role === "user" || event.role === "assistant"))
      this.#messages.set(event.seq, {
        assistant: event.role === "assistant" && !extra?.tool_calls?.length,
        aborted: extra?.metadata?.status === "aborted",
      });
    if (extra?.tool_calls && extra.tool_calls.length > 0) this.#calls.set(event.seq, { calls: extra.tool_calls });
    if (event.kind === "tool_result" && extra?.tool_call_id !== undefined)
      this.#calls.set(event.seq, { id: extra.tool_call_id, ok: extra.metadata?.status === "ok" });
  }

  /** Of the active branch that ends at `leafSeq`. */
  of(leafSeq: number, headSeq: number) {
    const active = new Set<number>();
    for (let seq = leafSeq; seq >= 0; seq = this.#parents[seq] ?? -1) active.add(seq);
    const replies = repliesOf([...this.#calls].filter(([seq]) => active.has(seq)).map(([, event]) => event));
    const messages = [...this.#messages].filter(([seq]) => active.has(seq)).map(([, message]) => message);
    const newest = messages.at(-1);
    return {
      wake: {
        fresh: messages.length === 0,
        headSeq,
        endedOnAssistant: newest?.assistant ?? false,
        pendingToolCalls: replies.at(-1)?.flatMap(({ call, ok }) => (ok === null ? [call] : [])) ?? [],
      },
      todos: newestTodos(replies.flat()),
      aborted: newest?.aborted ?? false,
    };
  }
}

/** The calls of each reply, in order. A result is one of the newest reply's: the same id may stand in an earlier run. */
function repliesOf(events: readonly CallEvent[]): CallFact[][] {
  const replies: CallFact[][] = [];
  let newest = new Map<string, CallFact>();
  for (const event of events) {
    if ("calls" in event) {
      newest = new Map(event.calls.map((call) => [call.id, { call, ok: null }]));
      replies.push([...newest.values()]);
    } else {
      const answered = newest.get(event.id);
      if (answered) answered.ok = event.ok;
    }
  }
  return replies;
}

/** The list of the newest todo_write that was accepted. */
function newestTodos(calls: readonly CallFact[]) {
  const accepted = calls.findLast(({ call, ok }) => call.name === "todo_write" && ok);
  return accepted ? todosOf(accepted.call.args as Parameters<typeof todosOf>[0]) : [];
}

/** The snapshot as the thread's actor tells it now, in pieces as they are read, with what is to stand around it. */
export function currentSnapshot(context: HttpContext, address: Address<"thread">, before = "", after = ""): Pieces {
  const { pasts, bus } = context;
  const { tenantId, suffix } = splitThreadId(address.key);
  const place = pasts.place(tenantId);
  let reader: PastReader | null = null;
  let over = false;
  const close = (): void => {
    over = true;
    reader?.close();
    place.leave();
  };
  async function open(): Promise<PastReader> {
    const { next_seq, run_id } = await bus.ask(address, "attach", {});
    const store = context.store.tenant(tenantId);
    const thread = (await threadBySuffix(store, suffix)) ?? null;
    const of = { threadId: address.key, thread, upTo: next_seq, isLive: run_id !== null, before, after };
    return pasts.read(place, snapshotState(of), () => new SnapshotMaker(store, of));
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
