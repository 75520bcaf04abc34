import { type Row, systemSql, tenantSql } from "./statements.ts";
import type { Scope, TenantStore, WriteOp } from "./store.ts";

/** A conversation as it is stored. The suffix is the client's part of its id. */
export interface ThreadRow {
  readonly thread_key: number;
  readonly suffix: string;
  readonly uid: string;
  readonly created_at: number;
  readonly updated_at: number;
  /** The sequence number that the next event will get. */
  readonly next_seq: number;
  /** The newest event of the active branch, -1 in an empty thread. */
  readonly leaf_seq: number;
  readonly revision: number;
  readonly manifest: string | null;
  readonly model_id: string | null;
  readonly session_name: string | null;
  readonly preview: string | null;
  readonly parent_session_id: string | null;
  readonly meta: ThreadMeta;
}

/** What few threads have. */
export interface ThreadMeta {
  readonly labels?: Readonly<Record<string, string>>;
  readonly feedback?: Readonly<Record<string, { rating: "up" | "down"; note: string; at: number }>>;
}

/** What a turn changes of its thread. */
export interface ThreadProgress {
  readonly thread_key: number;
  readonly updated_at: number;
  readonly next_seq: number;
  readonly leaf_seq: number;
  readonly manifest: string | null;
  readonly model_id: string | null;
}

/** Where a page of threads ended: after the thread of this time and suffix. */
export interface ThreadCursor {
  readonly updated_at: number;
  readonly suffix: string;
}

const columns =
  "thread_key, suffix, uid, created_at, updated_at, next_seq, leaf_seq, revision, manifest, model_id, session_name, preview, parent_session_id, meta";

const selectThread = tenantSql(
  "thread_by_suffix",
  `SELECT ${columns} FROM threads WHERE tenant_id = :tenant AND suffix = ?`,
);
const insertThread = tenantSql(
  "thread_insert",
  `INSERT INTO threads (tenant_id, ${columns}, indexed_seq) VALUES (:tenant, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
);
const updateProgress = tenantSql(
  "thread_progress",
  `UPDATE threads SET updated_at = ?, next_seq = ?, leaf_seq = ?, manifest = ?, model_id = ?, revision = revision + 1
   WHERE tenant_id = :tenant AND thread_key = ?`,
);
const deleteThread = tenantSql("thread_delete", "DELETE FROM threads WHERE tenant_id = :tenant AND thread_key = ?");
const selectRecent = tenantSql(
  "threads_recent",
  `SELECT ${columns} FROM threads WHERE tenant_id = :tenant AND (updated_at, suffix) < (?, ?)
   ORDER BY updated_at DESC, suffix DESC LIMIT ?`,
);
const reserveKeys = systemSql(
  "thread_keys_reserve",
  "UPDATE counters SET value = value + ? WHERE name = 'thread_key' RETURNING value",
);

/** The thread of a suffix, if the tenant has it. */
export async function threadBySuffix(store: TenantStore, suffix: string): Promise<ThreadRow | undefined> {
  const [row] = await store.read(selectThread, suffix);
  return row ? toThread(row) : undefined;
}

/** Refuses with conflict when the tenant has a thread of this suffix. */
export function insertThreadOp(store: TenantStore, thread: ThreadRow): WriteOp {
  return store.op(insertThread, [
    thread.thread_key,
    thread.suffix,
    thread.uid,
    thread.created_at,
    thread.updated_at,
    thread.next_seq,
    thread.leaf_seq,
    thread.revision,
    thread.manifest,
    thread.model_id,
    thread.session_name,
    thread.preview,
    thread.parent_session_id,
    metaText(thread.meta),
  ]);
}

/** Moves the thread on. Refuses with conflict when the thread is gone. */
export function progressOp(store: TenantStore, progress: ThreadProgress): WriteOp {
  return store.op(
    updateProgress,
    [
      progress.updated_at,
      progress.next_seq,
      progress.leaf_seq,
      progress.manifest,
      progress.model_id,
      progress.thread_key,
    ],
    1,
  );
}

/** Deletes the thread's row; its log is another operation. */
export function deleteThreadOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(deleteThread, [threadKey]);
}

/** Threads after `cursor`, newest first. */
export async function recentThreads(
  store: TenantStore,
  cursor: ThreadCursor | null,
  limit: number,
): Promise<ThreadRow[]> {
  const updatedAt = cursor?.updated_at ?? Number.MAX_SAFE_INTEGER;
  const rows = await store.read(selectRecent, updatedAt, cursor?.suffix ?? "", limit);
  return rows.map(toThread);
}

/** Reserves `count` thread keys for the caller and answers the first: keys that grow keep the log's newest pages together. */
export async function reserveThreadKeys(store: Scope, count: number): Promise<number> {
  const [rows] = await store.write([store.op(reserveKeys, [count])]);
  return (rows?.[0]?.value as number) - count;
}

function metaText(meta: ThreadMeta): string | null {
  const text = JSON.stringify(meta);
  return text === "{}" ? null : text;
}

function toThread(row: Row): ThreadRow {
  return {
    ...(row as unknown as Omit<ThreadRow, "meta">),
    meta: row.meta === null ? {} : (JSON.parse(row.meta as string) as ThreadMeta),
  };
}
