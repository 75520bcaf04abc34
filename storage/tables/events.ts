import { type Row, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, table, text } from "../store/table.ts";

// The event log: append-only, ordered, immutable. The key of a row is one integer, the thread's key times 2^24 plus the
// sequence number. This makes one b-tree, clustered by thread, and the same integer is the key in the search index.
//
// Event ids are not stored. An id is the thread's random uid (20 hexadecimal digits) and the sequence number (12). It
// is unguessable and unique, and contains the event's position. Each row stores the sequence number of its parent,
// which forms the tree.

/** Max events of one thread; further appends are refused. It is also the distance between the keys of two threads. */
export const eventsMax = 2 ** 24;

/** Max rows of one read. Longer reads are paged, so that they pin no snapshot and block no thread. */
export const pageRows = 500;
/** Approximate max bytes of content of one read: a page ends with the event that exceeds it. */
const pageBytes = 512 * 1024;
/** Page size up to which the length of the rows is not checked. */
const fewRows = 4;

const kinds = [
  "message",
  "tool_call",
  "tool_result",
  "thinking",
  "audit",
  "compaction",
  "model_change",
  "thinking_level_change",
  "branch_summary",
  "custom",
  "label",
  "session_info",
] as const;
const roles = ["user", "assistant", "system", "tool"] as const;

/** Kind of an event. */
export type EventKind = (typeof kinds)[number];

/** Role of the author of a message. */
export type EventRole = (typeof roles)[number];

/** A tool call as the log stores it. `args` is the parsed JSON, or the text itself if it is invalid. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}

/** Fields that most events do not have. */
export interface EventExtra {
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** One event of a thread's log. */
export interface LogEvent {
  readonly seq: number;
  /** Sequence number of the parent event, -1 for the first. */
  readonly parent_seq: number;
  readonly ts: number;
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
}

/** Bytes that an event counts in addition to its text, for its row and its memory. */
const eventRowBytes = 256;

/** Returns the bytes that an event counts in the size of its thread. */
export function eventBytes({ content, extra }: Pick<LogEvent, "content" | "extra">): number {
  return eventRowBytes + Buffer.byteLength(content) + (extra === null ? 0 : Buffer.byteLength(JSON.stringify(extra)));
}

/** Sequence numbers in [from, to). */
export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

/** All sequence numbers of a thread. The numbers of its runs have the same limit. */
export const wholeLog: SeqRange = { from: 0, to: eventsMax };

/** Returns the key range of a thread's events: the first key, and the key after the last. */
export function eventKeys(threadKey: number, { from, to }: SeqRange): [first: number, end: number] {
  const base = threadKey * eventsMax;
  return [base + from, base + Math.min(to, eventsMax)];
}

/** Returns the 20 hexadecimal digits of a new thread's uid, from an id of the environment. */
export function threadUid(id: string): string {
  return id.slice(0, 20);
}

/** Returns the id of an event: the thread's 20 digits, then the sequence number. */
export function eventId(uid: string, seq: number): string {
  return uid + seq.toString(16).padStart(12, "0");
}

/** Returns the sequence number in an event id of this thread, or -1 if the id is not one. */
export function eventSeq(uid: string, id: string): number {
  if (id.length !== 32 || !id.startsWith(uid) || !/^[0-9a-f]{12}$/.test(id.slice(20))) return -1;
  return Number.parseInt(id.slice(20), 16);
}

const eventColumns = {
  /** The thread's key and the sequence number in one integer. */
  event_key: integer,
  parent_seq: integer,
  ts: integer,
  kind: oneOf(...kinds),
  role: nullable(oneOf(...roles)),
  content: text,
  extra: nullable(json<EventExtra>()),
};
const eventTable = table("events", eventColumns);
/** With the run of the event, as its number within the thread. Readers of the log do not select it. */
const insertEvent = insertInto(table("events", { ...eventColumns, run: nullable(integer) }), "log");
const { columns } = eventTable;
const selectForward = tenantSql(
  "events_forward",
  `SELECT ${columns} FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key LIMIT ?`,
);
const selectBackward = tenantSql(
  "events_backward",
  `SELECT ${columns} FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key DESC LIMIT ?`,
);
const sizesForward = tenantSql(
  "event_sizes_forward",
  "SELECT event_key, OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(extra), 0) AS bytes FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key LIMIT ?",
);
const sizesBackward = tenantSql(
  "event_sizes_backward",
  "SELECT event_key, OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(extra), 0) AS bytes FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key DESC LIMIT ?",
);
const sumOfBytes = tenantSql(
  "event_bytes",
  `SELECT SUM(${eventRowBytes} + OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(extra), 0)) AS bytes FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?`,
);
const selectRun = tenantSql("event_run", "SELECT run FROM events WHERE tenant_id = :tenant AND event_key = ?");
const selectEvent = tenantSql(
  "event_by_key",
  `SELECT ${columns} FROM events WHERE tenant_id = :tenant AND event_key = ?`,
);
const selectRecord = tenantSql(
  "event_newest_record",
  `SELECT ${columns} FROM events INDEXED BY events_records
   WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? AND kind = 'audit' AND extra LIKE '%"record":"%'
     AND extra LIKE '%"record":"' || CAST(? AS TEXT) || '"%'
   ORDER BY event_key DESC LIMIT 1`,
);
const selectParents = tenantSql(
  "event_parents_backward",
  "SELECT event_key, parent_seq FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key DESC LIMIT ?",
);
const selectSizes = tenantSql(
  "event_sizes_of_branch",
  `SELECT event_key, parent_seq, kind, role, ${eventRowBytes} + OCTET_LENGTH(content) + COALESCE(OCTET_LENGTH(extra), 0) AS bytes FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? ORDER BY event_key DESC LIMIT ?`,
);
const deleteEvents = tenantSql(
  "events_delete",
  "DELETE FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?",
);

/**
 * Appends an event, optionally of the run with this number in the thread. Refuses with conflict if the sequence number
 * is taken.
 */
export function appendOp(
  store: TenantStore,
  threadKey: number,
  { seq, ...event }: LogEvent,
  run: number | null = null,
): WriteOp {
  return insertEvent(store, { ...event, event_key: threadKey * eventsMax + seq, run });
}

/** Deletes the events of a thread in a range. */
export function deleteEventsOp(store: TenantStore, threadKey: number, range: SeqRange = wholeLog): WriteOp {
  return store.op(deleteEvents, eventKeys(threadKey, range));
}

/** Returns the number of the run that wrote an event; null without such an event or run. */
export async function runOfEvent(store: TenantStore, threadKey: number, seq: number): Promise<number | null> {
  const [row] = await store.read(selectRun, threadKey * eventsMax + seq);
  return (row?.run ?? null) as number | null;
}

/** Returns events in [from, to), oldest first, up to one page. A page ends with the event that exceeds `bytesMax`. */
export async function readEvents(
  store: TenantStore,
  threadKey: number,
  from: number,
  to: number,
  bytesMax: number = pageBytes,
): Promise<LogEvent[]> {
  const base = threadKey * eventsMax;
  const end = await endOfPage(store, base + from, base + Math.min(to, eventsMax), bytesMax);
  const rows = await store.read(selectForward, base + from, end, pageRows);
  return rows.map((row) => toEvent(row, base));
}

/**
 * Returns the key after the last event of the page that begins with `from`. Queries the lengths without the contents.
 */
async function endOfPage(store: TenantStore, from: number, to: number, bytesMax: number): Promise<number> {
  if (to - from <= (bytesMax < pageBytes ? 1 : fewRows)) return to;
  let bytes = 0;
  for (const row of await store.read(sizesForward, from, to, pageRows)) {
    bytes += Number(row.bytes);
    if (bytes >= bytesMax) return (row.event_key as number) + 1;
  }
  return to;
}

/**
 * Returns where the window at the end of a range starts that has at most `countMax` events and about `bytesMax` bytes,
 * and its bytes. The newest event is always included.
 */
export async function windowStart(
  store: TenantStore,
  threadKey: number,
  { from, to }: SeqRange,
  countMax: number,
  bytesMax: number,
): Promise<{ start: number; bytes: number }> {
  const base = threadKey * eventsMax;
  let start = to;
  let left = countMax;
  let bytes = 0;
  while (left > 0 && start > from) {
    const rows = await store.read(sizesBackward, base + from, base + start, Math.min(left, pageRows));
    for (const row of rows) {
      const more = Number(row.bytes);
      if (bytes + more > bytesMax && start < to) return { start, bytes };
      bytes += more;
      start = (row.event_key as number) - base;
    }
    if (rows.length === 0) return { start: from, bytes };
    left -= rows.length;
  }
  return { start, bytes };
}

/** Returns events before `before`, newest first, up to `limit` or one page, but at least one. */
export async function readEventsBefore(
  store: TenantStore,
  threadKey: number,
  before: number,
  limit: number = pageRows,
): Promise<LogEvent[]> {
  const base = threadKey * eventsMax;
  const to = Math.min(before, eventsMax);
  const most = Math.min(limit, pageRows);
  const { start } = await windowStart(store, threadKey, { from: 0, to }, most, pageBytes);
  const rows = await store.read(selectBackward, base + start, base + to, most);
  return rows.map((row) => toEvent(row, base));
}

/** Returns the bytes of all events in some ranges of a thread, as `eventBytes` counts them. */
export async function rangeBytes(store: TenantStore, threadKey: number, ranges: readonly SeqRange[]): Promise<number> {
  let sum = 0;
  for (const range of ranges) {
    const [row] = await store.read(sumOfBytes, ...eventKeys(threadKey, range));
    sum += Number(row?.bytes ?? 0);
  }
  return sum;
}

/** Returns the event with a sequence number, if it exists. */
export async function readEvent(store: TenantStore, threadKey: number, seq: number): Promise<LogEvent | undefined> {
  const base = threadKey * eventsMax;
  const [row] = await store.read(selectEvent, base + seq);
  return row && toEvent(row, base);
}

/** Returns up to `limit` sequence numbers below `before`, newest first, each with the parent's. */
export async function readParents(
  store: TenantStore,
  threadKey: number,
  before: number,
  limit: number,
): Promise<{ seq: number; parent_seq: number }[]> {
  const base = threadKey * eventsMax;
  const rows = await store.read(selectParents, base, base + before, limit);
  return rows.map((row) => ({ seq: (row.event_key as number) - base, parent_seq: row.parent_seq as number }));
}

/** An event without its content. */
export interface EventSize extends Pick<LogEvent, "seq" | "parent_seq" | "kind" | "role"> {
  /** As `eventBytes` counts them. */
  readonly bytes: number;
}

/** Returns the sizes of up to `limit` events before `before`, newest first. */
export async function readSizesBefore(
  store: TenantStore,
  threadKey: number,
  before: number,
  limit: number,
): Promise<EventSize[]> {
  const base = threadKey * eventsMax;
  const rows = await store.read(selectSizes, base, base + before, limit);
  return rows.map(({ event_key, parent_seq, kind, role, bytes }) => ({
    seq: (event_key as number) - base,
    parent_seq: parent_seq as number,
    kind: kind as EventKind,
    role: role as EventRole | null,
    bytes: Number(bytes),
  }));
}

/** Returns the newest record of a type in a thread, on any branch; see `ThreadRecord`. */
export async function newestRecord(store: TenantStore, threadKey: number, type: string): Promise<LogEvent | undefined> {
  const base = threadKey * eventsMax;
  let [from, to] = eventKeys(threadKey, wholeLog);
  for (;;) {
    const [row] = await store.read(selectRecord, from, to, type);
    if (row === undefined) return undefined;
    const event = toEvent(row, base);
    // The arguments of a tool call of a sub-agent may contain the same text.
    if (event.extra?.metadata?.record === type) return event;
    to = base + event.seq;
  }
}

/** True for a record, which a copy of the thread contains. */
export function isRecord({ kind, extra }: Pick<LogEvent, "kind" | "extra">): boolean {
  return kind === "audit" && extra?.metadata?.record !== undefined;
}

function toEvent(row: Row, base: number): LogEvent {
  const { event_key, ...event } = eventTable.decode(row);
  return { ...event, seq: event_key - base };
}
