import { isHiddenSuffix } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import { requestMs, type Scope, type TenantStore, type WriteOp } from "../store/store.ts";
import { type Column, insertInto, integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { eventsMax } from "./events.ts";

/** Keys of threads are below it: those of their events and runs are then numbers that are exact everywhere. */
export const threadKeysEnd = 2 ** 53 / eventsMax;

/** What few threads have. */
export interface ThreadMeta {
  /** How hard the model is asked to think in this conversation; absent leaves it to the manifest. */
  readonly thinking_level?: ThinkingLevel;
  /** The style of answering that was picked, as its manifest wrote it then. */
  readonly output_style?: string;
  /** The permission mode that was set, or that the conversation has begun in; absent leaves it to the manifest. */
  readonly permission_mode?: PermissionMode;
  /** The sequence number of the next event when the leaf was last moved back. Without it the log is one branch. */
  readonly rewound_at?: number;
  /** The leaf as it then was. */
  readonly rewound_to?: number;
}

/** NULL in nearly every row. */
const metaColumn: Column<ThreadMeta> = {
  decode: (value) => (value === null ? {} : (JSON.parse(text.decode(value)) as ThreadMeta)),
  encode(meta) {
    const encoded = JSON.stringify(meta);
    return encoded === "{}" ? null : encoded;
  },
};

const columns = {
  thread_key: integer,
  /** The client's part of the id. */
  suffix: text,
  uid: text,
  created_at: integer,
  /** 0 until something is said: such a thread is in no list. */
  updated_at: integer,
  /** The sequence number that the next event will get. */
  next_seq: integer,
  /** The newest event of the active branch, -1 in an empty thread. */
  leaf_seq: integer,
  /** Of all events of the log: see `eventBytes`. */
  bytes: integer,
  revision: integer,
  /** How often the thread was taken: by each run that began or was resumed on it, and by each recovery. */
  epoch: integer,
  manifest: nullable(text),
  model_id: nullable(text),
  session_name: nullable(text),
  preview: nullable(text),
  parent_session_id: nullable(text),
  meta: metaColumn,
};
const threadTable = table("threads", columns);
const loadedTable = table("threads", { ...columns, queued: integer });
/** With how far the search index has come. */
const insertThread = insertInto(table("threads", { ...columns, indexed_seq: integer }));

/** A conversation as it is stored. */
export type ThreadRow = RowIn<typeof threadTable>;

/** What an append changes of its thread. */
type ThreadGrowth = Pick<ThreadRow, "thread_key" | "updated_at" | "next_seq" | "leaf_seq" | "bytes">;

/** What a turn changes of its thread as it begins. */
type ThreadProgress = ThreadGrowth & Pick<ThreadRow, "epoch" | "manifest" | "model_id">;

/** Where a page of threads ended: after the thread of this time and suffix. */
export interface ThreadCursor {
  readonly updated_at: number;
  readonly suffix: string;
}

const updateProgress = tenantSql(
  "thread_progress",
  `UPDATE threads SET updated_at = ?, next_seq = ?, leaf_seq = ?, bytes = ?, epoch = ?, manifest = ?, model_id = ?,
     revision = revision + 1
   WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ? AND next_seq = ?`,
);
const updateGrowth = tenantSql(
  "thread_growth",
  `UPDATE threads SET updated_at = ?, next_seq = ?, leaf_seq = ?, bytes = ?, revision = revision + 1
   WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ? AND next_seq = ?`,
);
const takeThread = tenantSql(
  "thread_take",
  `UPDATE threads SET epoch = ?, revision = revision + 1
   WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ? AND next_seq = ?`,
);
const updateMeta = tenantSql(
  "thread_meta",
  "UPDATE threads SET meta = ?, revision = revision + 1 WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ?",
);
const updateQueued = tenantSql(
  "thread_queued",
  "UPDATE threads SET queued = ?, revision = revision + 1 WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ?",
);
const selectLoaded = tenantSql(
  "thread_to_load",
  `SELECT ${loadedTable.columns} FROM threads WHERE tenant_id = :tenant AND suffix = ?`,
);
const updatePreview = tenantSql(
  "thread_preview",
  "UPDATE threads SET preview = ? WHERE tenant_id = :tenant AND thread_key = ?",
);
const rewindThread = tenantSql(
  "thread_rewind",
  `UPDATE threads SET updated_at = ?, leaf_seq = ?, epoch = ?, meta = ?, revision = revision + 1
   WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ?`,
);
const renameThread = tenantSql(
  "thread_rename",
  "UPDATE threads SET session_name = ? WHERE tenant_id = :tenant AND thread_key = ?",
);
const reviseThread = tenantSql(
  "thread_revise",
  "UPDATE threads SET revision = revision + 1 WHERE tenant_id = :tenant AND thread_key = ?",
);
const deleteThread = tenantSql(
  "thread_delete",
  "DELETE FROM threads WHERE tenant_id = :tenant AND thread_key = ? AND epoch = ?",
);
const selectRecent = tenantSql(
  "threads_recent",
  `SELECT ${threadTable.columns} FROM threads WHERE tenant_id = :tenant AND (updated_at, suffix) < (?, ?)
     AND updated_at > 0
   ORDER BY updated_at DESC, suffix DESC LIMIT ?`,
);
const selectTasks = tenantSql(
  "threads_tasks",
  `SELECT suffix FROM threads WHERE tenant_id = :tenant AND parent_session_id = ? AND updated_at = 0 AND suffix > ?
   ORDER BY suffix LIMIT ?`,
);
const reserveKeys = systemSql(
  "thread_keys_reserve",
  `UPDATE counters SET value = value + ? WHERE name = 'thread_key' AND value + ? <= ${threadKeysEnd} RETURNING value`,
);

/** The thread of a suffix, if the tenant has it. */
export const threadBySuffix = selectOne(threadTable, ["suffix"]);

/** The same by its key. */
export const threadByKey = selectOne(threadTable, ["thread_key"]);

/** The same by its suffix, with how many inputs wait for it. */
export async function threadToLoad(
  store: TenantStore,
  suffix: string,
): Promise<{ thread: ThreadRow; queued: number } | undefined> {
  const [row] = await store.read(selectLoaded, suffix);
  if (row === undefined) return undefined;
  const { queued, ...thread } = loadedTable.decode(row);
  return { thread, queued };
}

/** Refuses with conflict when the tenant has a thread of this suffix. */
export function insertThreadOp(store: TenantStore, thread: ThreadRow): WriteOp {
  // What tasks and runs without a conversation say is found by nobody.
  return insertThread(store, { ...thread, indexed_seq: isHiddenSuffix(thread.suffix) ? Number.MAX_SAFE_INTEGER : 0 });
}

/**
 * Moves the thread on from where it was. Refuses with conflict when the thread is gone, was taken by another, whose epoch is a higher one,
 * or does not stand where its log goes on: the batch before was refused, while this one was on its way.
 */
export function progressOp(
  store: TenantStore,
  before: Pick<ThreadRow, "epoch" | "next_seq">,
  progress: ThreadProgress,
): WriteOp {
  return store.op(
    updateProgress,
    [
      progress.updated_at,
      progress.next_seq,
      progress.leaf_seq,
      progress.bytes,
      progress.epoch,
      progress.manifest,
      progress.model_id,
      progress.thread_key,
      before.epoch,
      before.next_seq,
    ],
    1,
  );
}

/** The same while the thread stays whose it is. */
export function growthOp(
  store: TenantStore,
  { epoch, next_seq }: Pick<ThreadRow, "epoch" | "next_seq">,
  grown: ThreadGrowth,
): WriteOp {
  const { updated_at, leaf_seq, bytes, thread_key } = grown;
  return store.op(updateGrowth, [updated_at, grown.next_seq, leaf_seq, bytes, thread_key, epoch, next_seq], 1);
}

/**
 * Takes a thread from whoever holds it, without a word in its log. Refuses with conflict when that was taken, or written to, since
 * `seen` was read: a batch of the one before may have been on its way.
 */
export function takeThreadOp(
  store: TenantStore,
  seen: Pick<ThreadRow, "thread_key" | "epoch" | "next_seq">,
  epoch: number,
): WriteOp {
  return store.op(takeThread, [epoch, seen.thread_key, seen.epoch, seen.next_seq], 1);
}

/** Writes what few threads have. Refuses with conflict when the thread is gone or was taken by another. */
export function metaOp(
  store: TenantStore,
  { thread_key, epoch, meta }: Pick<ThreadRow, "thread_key" | "epoch" | "meta">,
): WriteOp {
  return store.op(updateMeta, [metaColumn.encode(meta), thread_key, epoch], 1);
}

/** Says how many inputs wait for the thread. Refuses with conflict when it is gone or was taken by another. */
export function queuedOp(
  store: TenantStore,
  { thread_key, epoch }: Pick<ThreadRow, "thread_key" | "epoch">,
  count: number,
): WriteOp {
  return store.op(updateQueued, [count, thread_key, epoch], 1);
}

/** Writes the first words of a thread that had none. Beside a guarded operation. */
export function previewOp(store: TenantStore, { thread_key }: Pick<ThreadRow, "thread_key">, preview: string): WriteOp {
  return store.op(updatePreview, [preview, thread_key], 1);
}

/** Moves the leaf back, and takes the thread. Refuses with conflict when the thread is gone, or was taken by another. */
export function rewindOp(store: TenantStore, thread: ThreadRow, held: number): WriteOp {
  const { updated_at, leaf_seq, epoch, meta, thread_key } = thread;
  return store.op(rewindThread, [updated_at, leaf_seq, epoch, metaColumn.encode(meta), thread_key, held], 1);
}

/** Names the thread. Refuses with conflict when it is gone. */
export function renameOp(store: TenantStore, threadKey: number, name: string): WriteOp {
  return store.op(renameThread, [name, threadKey], 1);
}

/** Something beside the log has changed. Refuses with conflict when the thread is gone. */
export function reviseOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(reviseThread, [threadKey], 1);
}

/** Deletes the thread's row; its log and its runs are other operations. Refuses with conflict when it is gone or was taken by another. */
export function deleteThreadOp(
  store: TenantStore,
  { thread_key, epoch }: Pick<ThreadRow, "thread_key" | "epoch">,
): WriteOp {
  return store.op(deleteThread, [thread_key, epoch], 1);
}

/** Threads after `cursor`, newest first; those in which nothing was said are left out. */
export async function recentThreads(
  store: TenantStore,
  cursor: ThreadCursor | null,
  limit: number,
): Promise<ThreadRow[]> {
  const updatedAt = cursor?.updated_at ?? Number.MAX_SAFE_INTEGER;
  const rows = await store.read(selectRecent, updatedAt, cursor?.suffix ?? "", limit);
  return rows.map(threadTable.decode);
}

/** The suffixes of the tasks of a conversation, in pages. */
export async function tasksOfThread(
  store: TenantStore,
  threadId: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const rows = await store.read(selectTasks, threadId, after, limit);
  return rows.map(({ suffix }) => suffix as string);
}

/**
 * Reserves `count` thread keys for the caller and answers the first: keys that grow keep the log's newest pages together. Refuses with
 * storage_unavailable when the database has had as many as there are.
 */
export async function reserveThreadKeys(store: Scope, count: number): Promise<number> {
  const [rows] = await store.write([store.op(reserveKeys, [count, count])], requestMs);
  const end = rows?.[0]?.value;
  if (end === undefined) throw new SvcError("storage_unavailable", { subject: "threads_full" });
  return (end as number) - count;
}
