import type { TenantStore } from "../storage/store/store.ts";
import { type LogEvent, readEvents } from "../storage/tables/events.ts";
import { runNumber } from "../storage/tables/runs.ts";
import { threadBySuffix } from "../storage/tables/threads.ts";
import { type WaitRow, waitsOpenedIn } from "../storage/tables/waits.ts";
import type { DurableRun } from "./run-record.ts";

// The timeline of a durable run, made from its rows, its log and its waits. It contains kinds, times and counts but no text and no
// arguments, so that operators can read it without access to content.

/** A step of the run, or an input to it. */
export interface TimelineItem {
  readonly at: number;
  readonly kind:
    | "accepted"
    | "begun"
    | "input"
    | "model_call"
    | "tool_call"
    | "tool_result"
    | "wait"
    | "note"
    | "retry"
    | "ended";
  /** Its position in the log; null if it is not an event. */
  readonly seq: number | null;
  readonly [field: string]: unknown;
}

/** A page of a timeline. */
export interface Timeline {
  readonly items: readonly TimelineItem[];
  /** The first sequence number of the next page; null for the last page. */
  readonly next: number | null;
}

/** Returns at most `limit` events from a sequence number on (null for the start), with the waits and status changes between them. */
export async function timelineOf(
  store: TenantStore,
  found: DurableRun,
  from: number | null,
  limit: number,
): Promise<Timeline> {
  const { durable, run } = found;
  const first = run.first_seq ?? 0;
  const begin = Math.max(first, from ?? first);
  const thread = await threadBySuffix(store, durable.suffix);
  const end = run.last_seq === null ? (thread?.next_seq ?? 0) : run.last_seq + 1;
  const read = begin < end && thread ? await readEvents(store, thread.thread_key, begin, end) : [];
  const events = read.slice(0, limit);
  const next = (events.at(-1)?.seq ?? end) + 1;
  const isLast = events.length === 0 || next >= end;
  const since = from === null ? 0 : (read[0]?.ts ?? Number.MAX_SAFE_INTEGER);
  const until = isLast ? Number.MAX_SAFE_INTEGER : (read[limit]?.ts ?? (await tsOf(store, thread?.thread_key, next)));
  const waits = await waitsOpenedIn(store, durable.run_id, since, until);
  const began = new Map<string | undefined, number>();
  const items = events.map((event) => itemOf(event, began));
  const marks = [
    ...(from === null ? beginningOf(found) : []),
    ...waits.map(waitItem),
    ...(isLast ? standingOf(found) : []),
  ];
  return { items: merged(items, marks), next: isLast ? null : next };
}

/** Returns how often a process resumed the run: each resumption raises the fencing token of the thread. */
export function claimsOf({ run }: DurableRun): number {
  return run.epoch - runNumber(run.run_key);
}

async function tsOf(store: TenantStore, threadKey: number | undefined, seq: number): Promise<number> {
  const [event] = threadKey === undefined ? [] : await readEvents(store, threadKey, seq, seq + 1);
  return event?.ts ?? Number.MAX_SAFE_INTEGER;
}

function beginningOf({ durable, run }: DurableRun): TimelineItem[] {
  const { surface, principal, requeued } = run.asked;
  const accepted: TimelineItem = {
    at: durable.accepted_at,
    kind: "accepted",
    seq: null,
    surface,
    principal_subj: principal.sub,
    ...(requeued && { requeued_from: requeued.run_id }),
  };
  return durable.begun_at === null ? [accepted] : [accepted, { at: durable.begun_at, kind: "begun", seq: null }];
}

/** Returns the current state: a failed step with its retry time, or the end. */
function standingOf({ durable, run }: DurableRun): TimelineItem[] {
  const { attempts, lost, wake_at, updated_at, ended_at, error } = durable;
  if (ended_at !== null) {
    const { stop_reason = null } = run.result ?? {};
    return [{ at: ended_at, kind: "ended", seq: null, status: run.status, stop_reason, error, attempts, lost }];
  }
  if (attempts === 0 && lost === 0) return [];
  return [{ at: updated_at, kind: "retry", seq: null, attempts, lost, wake_at }];
}

function waitItem({ opened_at, kind, state, deadline, asked_as, approval_id, call }: WaitRow): TimelineItem {
  const { tool, tool_call_id } = call;
  return {
    at: opened_at,
    kind: "wait",
    seq: null,
    ...{ for: kind, id: approval_id ?? asked_as, state, until: deadline, tool, tool_call_id },
  };
}

/** Returns the item of an event. `began` maps call ids to start times; the intent of a call precedes its result. */
function itemOf(event: LogEvent, began: Map<string | undefined, number>): TimelineItem {
  const { seq, ts: at, kind, role, extra } = event;
  const metadata = extra?.metadata ?? {};
  const call = { tool: extra?.name ?? null, tool_call_id: extra?.tool_call_id ?? null };
  if (kind === "tool_call") {
    began.set(extra?.tool_call_id, at);
    return { at, kind, seq, ...call, effect: metadata.effect ?? null };
  }
  if (kind === "tool_result") {
    const since = began.get(extra?.tool_call_id);
    const ms = since === undefined ? null : at - since;
    return { at, kind, seq, ...call, status: metadata.status ?? null, ms, ...decidedBy(metadata) };
  }
  if (kind === "message" && role === "assistant" && metadata.source !== "client") {
    const { model = null, stop_reason = null, usage = null, status } = metadata;
    const asked = extra?.tool_calls?.map(({ name }) => name) ?? [];
    return {
      at,
      kind: "model_call",
      seq,
      ...{ model, stop_reason, usage, tools: asked },
      ...(status !== undefined && { status }),
      ...decidedBy(metadata),
    };
  }
  if (kind === "message" && role === "user") return { at, kind: "input", seq, type: metadata.type ?? null };
  return { at, kind: "note", seq, type: metadata.type ?? kind };
}

/** Returns the verdicts of controls about a call, a result or a reply, and its untrusted sources. Both name no text. */
function decidedBy({ controls, passed, taint }: Readonly<Record<string, unknown>>): object {
  return {
    ...(controls !== undefined && { controls }),
    ...(passed !== undefined && { passed }),
    ...(taint !== undefined && { taint }),
  };
}

/** Merges events and marks by time. Events keep their order, even if a clock went backwards. */
function merged(items: readonly TimelineItem[], marks: readonly TimelineItem[]): TimelineItem[] {
  const all: TimelineItem[] = [];
  const left = [...marks];
  for (const item of items) {
    while (left[0] && left[0].at <= item.at && left[0].kind !== "ended") all.push(left.shift() as TimelineItem);
    all.push(item);
  }
  return [...all, ...left];
}
