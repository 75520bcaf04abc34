import { isHiddenSuffix } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { PermissionMode } from "../../bus/protocol/permission-mode.ts";
import type { ThinkingLevel } from "../../bus/protocol/thinking.ts";
import { systemSql, tenantSql } from "../store/statements.ts";
import { requestMs, type Scope, type TenantStore, type WriteOp } from "../store/store.ts";
import { type Column, insertInto, integer, nullable, type RowIn, selectOne, table, text } from "../store/table.ts";
import { eventsMax } from "./events.ts";

/** Upper bound of thread keys, below which the keys of events and runs are exact as doubles. */
export const threadKeysEnd = 2 ** 53 / eventsMax;

/** Fields that few threads have. */
export interface ThreadMeta {
  /** Thinking level of the thread; absent for the manifest's. */
  readonly thinking_level?: ThinkingLevel;
  /** The chosen output style, as its manifest defined it at that time. */
  readonly output_style?: string;
  /** Permission mode that was set, or that the thread started in; absent for the manifest's. */
  readonly permission_mode?: PermissionMode;
  /** True if the thread has had a pin; see storage/tables/manifest-pins.ts. */
  readonly pinned?: true;
  /** Sequence number of the next event at the last rewind; absent if the log has only one branch. */
  readonly rewound_at?: number;
  /** The leaf after that rewind. */
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
  /** 0 until the first message; lists exclude such a thread. */
  updated_at: integer,
  /** Sequence number of the next event. */
  next_seq: integer,
  /** The newest event of the active branch, -1 in an empty thread. */
  leaf_seq: integer,
  /** Bytes of all events of the log; see `eventBytes`. */
  bytes: integer,
  revision: integer,
  /** Incremented by each run that starts or resumes on the thread, and by each recovery. */
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
/** With the position of the search index. */
const insertThread = insertInto(table("threads", { ...columns, indexed_seq: integer }));

/** A stored thread. */
export type ThreadRow = RowIn<typeof threadTable>;

/** Columns that an append changes. */
type ThreadGrowth = Pick<ThreadRow, "thread_key" | "updated_at" | "next_seq" | "leaf_seq" | "bytes">;

/** Columns that the start of a turn changes. */
type ThreadProgress = ThreadGrowth & Pick<ThreadRow, "epoch" | "manifest" | "model_id">;

/** Position after a page of threads: the time and suffix of its last one. */
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

/** Returns the thread with a suffix, if the tenant has it. */
export const threadBySuffix = selectOne(threadTable, ["suffix"]);

/** Returns the thread with a key, if the tenant has it. */
export const threadByKey = selectOne(threadTable, ["thread_key"]);

/** Returns the thread with a suffix, and the number of its queued inputs. */
export async function threadToLoad(
  store: TenantStore,
  suffix: string,
): Promise<{ thread: ThreadRow; queued: number } | undefined> {
  const [row] = await store.read(selectLoaded, suffix);
  if (row === undefined) return undefined;
  const { queued, ...thread } = loadedTable.decode(row);
  return { thread, queued };
}

/** Inserts a thread. Refuses with conflict if its suffix exists. */
export function insertThreadOp(store: TenantStore, thread: ThreadRow): WriteOp {
  // Hidden threads, of tasks and of runs without a thread, are not searchable.
  return insertThread(store, { ...thread, indexed_seq: isHiddenSuffix(thread.suffix) ? Number.MAX_SAFE_INTEGER : 0 });
}

/**
 * Advances the thread from the state `before`. Refuses with conflict if the thread was deleted, has a higher epoch, or
 * has another next sequence number. The latter means that the preceding batch was refused.
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

/** Advances the thread without a new epoch. */
export function growthOp(
  store: TenantStore,
  { epoch, next_seq }: Pick<ThreadRow, "epoch" | "next_seq">,
  grown: ThreadGrowth,
): WriteOp {
  const { updated_at, leaf_seq, bytes, thread_key } = grown;
  return store.op(updateGrowth, [updated_at, grown.next_seq, leaf_seq, bytes, thread_key, epoch, next_seq], 1);
}

/**
 * Raises the epoch of a thread without an event. Refuses with conflict if its epoch or log has changed since `seen` was
 * read, because a batch of the previous owner may have been pending.
 */
export function takeThreadOp(
  store: TenantStore,
  seen: Pick<ThreadRow, "thread_key" | "epoch" | "next_seq">,
  epoch: number,
): WriteOp {
  return store.op(takeThread, [epoch, seen.thread_key, seen.epoch, seen.next_seq], 1);
}

/** Stores the rare fields of a thread. Refuses with conflict if the thread was deleted or has another epoch. */
export function metaOp(
  store: TenantStore,
  { thread_key, epoch, meta }: Pick<ThreadRow, "thread_key" | "epoch" | "meta">,
): WriteOp {
  return store.op(updateMeta, [metaColumn.encode(meta), thread_key, epoch], 1);
}

/** Stores the number of queued inputs. Refuses with conflict if the thread was deleted or has another epoch. */
export function queuedOp(
  store: TenantStore,
  { thread_key, epoch }: Pick<ThreadRow, "thread_key" | "epoch">,
  count: number,
): WriteOp {
  return store.op(updateQueued, [count, thread_key, epoch], 1);
}

/** Stores the first words of a thread as its preview. Use in one batch with a guarded operation. */
export function previewOp(store: TenantStore, { thread_key }: Pick<ThreadRow, "thread_key">, preview: string): WriteOp {
  return store.op(updatePreview, [preview, thread_key], 1);
}

/** Moves the leaf back and raises the epoch. Refuses with conflict if the thread was deleted or has another epoch. */
export function rewindOp(store: TenantStore, thread: ThreadRow, held: number): WriteOp {
  const { updated_at, leaf_seq, epoch, meta, thread_key } = thread;
  return store.op(rewindThread, [updated_at, leaf_seq, epoch, metaColumn.encode(meta), thread_key, held], 1);
}

/** Names the thread. Refuses with conflict if it was deleted. */
export function renameOp(store: TenantStore, threadKey: number, name: string): WriteOp {
  return store.op(renameThread, [name, threadKey], 1);
}

/** Increments the revision after a change outside the log. Refuses with conflict if the thread was deleted. */
export function reviseOp(store: TenantStore, threadKey: number): WriteOp {
  return store.op(reviseThread, [threadKey], 1);
}

/**
 * Deletes the row of a thread, without its log and runs. Refuses with conflict if it was deleted or has another epoch.
 */
export function deleteThreadOp(
  store: TenantStore,
  { thread_key, epoch }: Pick<ThreadRow, "thread_key" | "epoch">,
): WriteOp {
  return store.op(deleteThread, [thread_key, epoch], 1);
}

/** Returns threads after `cursor`, newest first, without those that have no messages. */
export async function recentThreads(
  store: TenantStore,
  cursor: ThreadCursor | null,
  limit: number,
): Promise<ThreadRow[]> {
  const updatedAt = cursor?.updated_at ?? Number.MAX_SAFE_INTEGER;
  const rows = await store.read(selectRecent, updatedAt, cursor?.suffix ?? "", limit);
  return rows.map(threadTable.decode);
}

/** Returns the suffixes of a thread's tasks, in pages. */
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
 * Reserves `count` thread keys and returns the first. Increasing keys keep the newest pages of the log together.
 * Refuses with storage_unavailable if all keys are used.
 */
export async function reserveThreadKeys(store: Scope, count: number): Promise<number> {
  const [rows] = await store.write([store.op(reserveKeys, [count, count])], requestMs);
  const end = rows?.[0]?.value;
  if (end === undefined) throw new SvcError("storage_unavailable", { subject: "threads_full" });
  return (end as number) - count;
}
