import { type Row, tenantSql } from "../store/statements.ts";
import type { TenantStore, WriteOp } from "../store/store.ts";
import { insertInto, integer, json, nullable, oneOf, table, text } from "../store/table.ts";

// The session log: append-only, in order, never changed. A row is found by one integer, the thread's key times 2^24 plus the
// sequence number: one b-tree, clustered by thread, and the same integer is the row's key in the search index.
//
// Event ids are not stored: an id is the thread's random uid (20 hexadecimal digits) and the sequence number (12), so it is
// unguessable, unique, and says where its event is. The tree is kept as the sequence number of each event's parent.

/** Events of one thread; an append beyond it is refused. Keys of two threads are so far apart in the key of an event. */
export const eventsMax = 2 ** 24;

/** Rows read at once: a longer read is made in pages, so that no snapshot is pinned and no thread stalls. */
export const pageRows = 500;
/** Bytes of content read at once, about: a page ends with the event that goes beyond. */
const pageBytes = 512 * 1024;
/** So few rows are read without asking how long they are. */
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

/** What an event of a log is. */
export type EventKind = (typeof kinds)[number];

/** Who speaks in an event that is a message. */
export type EventRole = (typeof roles)[number];

/** A call as the log keeps it. `args` are parsed where they could be, else the text itself. */
export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly args: unknown;
}

/** What most events do not have. */
export interface EventExtra {
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ToolCall[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** One entry of a thread's log. */
export interface LogEvent {
  readonly seq: number;
  /** The event before it on its branch, -1 for the first. */
  readonly parent_seq: number;
  readonly ts: number;
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly extra: EventExtra | null;
}

/** What an event counts beside its text: its row and its place in memory. */
const eventRowBytes = 256;

/** Bytes that an event counts in the size of its thread. */
export function eventBytes({ content, extra }: Pick<LogEvent, "content" | "extra">): number {
  return eventRowBytes + Buffer.byteLength(content) + (extra === null ? 0 : Buffer.byteLength(JSON.stringify(extra)));
}

/** Sequence numbers in [from, to). */
export interface SeqRange {
  readonly from: number;
  readonly to: number;
}

/** Every sequence number that a thread can have; runs have as many numbers. */
export const wholeLog: SeqRange = { from: 0, to: eventsMax };

/** The keys that events of a thread in a range lie between: the first, and one past the last. */
export function eventKeys(threadKey: number, { from, to }: SeqRange): [first: number, end: number] {
  const base = threadKey * eventsMax;
  return [base + from, base + Math.min(to, eventsMax)];
}

/** 20 hexadecimal digits for a new thread, from an id of the environment. */
export function threadUid(id: string): string {
  return id.slice(0, 20);
}

/** The id of an event: the thread's own 20 digits, then its place in the log. */
export function eventId(uid: string, seq: number): string {
  return uid + seq.toString(16).padStart(12, "0");
}

/** The sequence number that an event id of this thread names, or -1 when it names none. */
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
/** With the run that the event belongs to, by its number in the thread: a byte or two, and no reader of a log asks for it. */
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

/** Appends an event, of the run that has this number in the thread, or of none. Refuses with conflict when its own number is taken. */
export function appendOp(
  store: TenantStore,
  threadKey: number,
  { seq, ...event }: LogEvent,
  run: number | null = null,
): WriteOp {
  return insertEvent(store, { ...event, event_key: threadKey * eventsMax + seq, run });
}

/** Deletes the events of a thread that are in a range. */
export function deleteEventsOp(store: TenantStore, threadKey: number, range: SeqRange = wholeLog): WriteOp {
  return store.op(deleteEvents, eventKeys(threadKey, range));
}

/** The number, in its thread, of the run that an event belongs to; null when there is no such event, or none of a run. */
export async function runOfEvent(store: TenantStore, threadKey: number, seq: number): Promise<number | null> {
  const [row] = await store.read(selectRun, threadKey * eventsMax + seq);
  return (row?.run ?? null) as number | null;
}

/** Events with sequence numbers in [from, to), oldest first, at most a page in number and in length: one event more than `bytesMax`. */
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

/** The key behind the last event of the page that begins with `from`. Lengths are known without reading what is long. */
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
 * Where the window begins that is at the end of a range and has at most so many events, and about so many bytes of content, and how
 * many bytes these are: the newest event is in it however long it is.
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

/** Events with sequence numbers below `before`, newest first, at most `limit` and at most a page in number and in length: one at least. */
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

/** Bytes of all events in some ranges of a thread, as `eventBytes` counts them. */
export async function rangeBytes(store: TenantStore, threadKey: number, ranges: readonly SeqRange[]): Promise<number> {
  let sum = 0;
  for (const range of ranges) {
    const [row] = await store.read(sumOfBytes, ...eventKeys(threadKey, range));
    sum += Number(row?.bytes ?? 0);
  }
  return sum;
}

/** The event of a sequence number, if the thread has it. */
export async function readEvent(store: TenantStore, threadKey: number, seq: number): Promise<LogEvent | undefined> {
  const base = threadKey * eventsMax;
  const [row] = await store.read(selectEvent, base + seq);
  return row && toEvent(row, base);
}

/** Sequence numbers below `before`, newest first, at most `limit`, each with that of its event's parent. */
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

/** An event without what it says. */
export interface EventSize extends Pick<LogEvent, "seq" | "parent_seq" | "kind" | "role"> {
  /** As `eventBytes` counts them. */
  readonly bytes: number;
}

/** The sizes of the events with sequence numbers below `before`, newest first, at most `limit`. */
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

function toEvent(row: Row, base: number): LogEvent {
  const { event_key, ...event } = eventTable.decode(row);
  return { ...event, seq: event_key - base };
}
