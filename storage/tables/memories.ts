import { createHash } from "node:crypto";
import { readCursor, writeCursor } from "../store/cursor.ts";
import type { Page } from "../store/list.ts";
import { type Param, systemSql, tenantSql } from "../store/statements.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import {
  insertInto,
  integer,
  json,
  nullable,
  oneOf,
  type RowIn,
  real,
  selectOne,
  table,
  text,
} from "../store/table.ts";
import { deleteCapturesOfOp, deleteCapturesOp } from "./captures.ts";
import { anyWordQuery, indexText, wordMatches } from "./corpus-words.ts";
import { fuse } from "./fusion.ts";
import { othersThan, ownerIsGone } from "./hosts.ts";
import { storedRows, writeStored } from "./stored-bytes.ts";
import { unlessChanged } from "./unless-changed.ts";
import { deleteVectorsOps, nearestSearch, type QueryVector } from "./vectors.ts";

// Facts that agents and operators store for later conversations, found by their words. A fact is active, superseded by a
// newer one, or forgotten; only an erasure deletes it. Words carry the mark of their tenant, as in search.ts.

const memoryTable = table(
  "memories",
  {
    id: text,
    /** Position in lists: the time of creation, or of the change to a status other than active. */
    ts: integer,
    /** Key of the search entries, derived from tenant and id. */
    memory_key: integer,
    kind: oneOf("fact", "event", "instruction", "task"),
    /** The agent that recalls it; empty for none. */
    manifest_id: text,
    content: text,
    source: oneOf("agent", "operator", "capture", "consolidation"),
    /** Subject of the person whose turn or request wrote it. */
    principal: text,
    /** Digest of that person's identity: subjects are unique only within scheme and issuer. */
    owner: text,
    /** 1 if only the owner's turns recall it (decision 134: spec.memory.scope is principal). */
    personal: integer,
    /** Full id of the thread that wrote it; empty for none. */
    thread_id: text,
    thread_key: nullable(integer),
    /** Position of the turn that wrote it, in the log of the thread. */
    origin_seq: nullable(integer),
    topic_key: nullable(text),
    importance: real,
    /** Sources of untrusted text that the turn had read. */
    taint: json<readonly string[]>(),
    status: oneOf("active", "superseded", "forgotten"),
    superseded_by: nullable(text),
    /** End of the thread's log when it was superseded. */
    superseded_seq: nullable(integer),
    forgotten_by: nullable(text),
    /** Rank of the caller that forgot it. */
    forgotten_rank: nullable(integer),
    created_at: integer,
    updated_at: integer,
    last_used_at: nullable(integer),
    /** Bytes that it counts against the quota. */
    bytes: integer,
    /** The host with whose end it is deleted; null for one that stays. */
    lost_with: nullable(text),
  },
  ({ text: content, threadKey: thread_key }) => ({
    ...{ id: "row", ts: 5, memory_key: thread_key, manifest_id: "m", content, principal: content, owner: content },
    ...{ personal: 0, thread_id: "t1", thread_key, origin_seq: 5, topic_key: "k", importance: 0.5, taint: [content] },
    ...{ superseded_by: null, superseded_seq: null, forgotten_by: null, forgotten_rank: null, created_at: 5 },
    ...{ updated_at: 5, last_used_at: null, bytes: 5, lost_with: null },
    kind: "fact" as const,
    source: "agent" as const,
    status: "active" as const,
  }),
);

/** A stored memory. */
export type MemoryRow = RowIn<typeof memoryTable>;
/** Kind of a memory. */
export type MemoryKind = MemoryRow["kind"];
/** Status of a memory. */
export type MemoryStatus = MemoryRow["status"];

/** A memory to store. */
export interface MemoryWritten
  extends Pick<
    MemoryRow,
    | "id"
    | "kind"
    | "manifest_id"
    | "content"
    | "source"
    | "principal"
    | "owner"
    | "personal"
    | "topic_key"
    | "importance"
    | "taint"
    | "lost_with"
  > {
  /** The conversation and turn that it comes from; null for none. */
  readonly origin: Pick<MemoryRow, "thread_id" | "thread_key" | "origin_seq"> | null;
}

/** What gives a memory its vector: the bytes to count, and the operations that queue its text; 0 and none without an embedder. */
export interface MemoryVector {
  readonly vectorBytes: number;
  readonly queueOps: readonly WriteOp[];
}

/** Narrows memories. Absent fields match all. */
export interface MemoryFilter {
  readonly manifest_id?: string | undefined;
  readonly kind?: string | undefined;
  readonly principal?: string | undefined;
  /** The reader; absent for an operator, who sees all. */
  readonly reader?: MemoryReader | undefined;
}

/** Whose turn reads memories. */
export interface MemoryReader {
  readonly owner: string;
  /** True if the turn also sees memories of others that are not personal. */
  readonly seesShared: boolean;
  /** The host whose lost memories it sees. */
  readonly host: string;
}

/** A memory that a search found. */
export interface MemoryHit {
  readonly memory: MemoryRow;
  /** The sum over the channels of 1 / (5 + rank), as in reciprocal rank fusion. */
  readonly score: number;
  readonly channels: readonly ("lexical" | "vector")[];
}

/** Kinds of memories; every other word counts as a fact. */
export const memoryKinds: readonly MemoryKind[] = ["fact", "event", "instruction", "task"];
/** Statuses of memories. */
export const memoryStatuses: readonly MemoryStatus[] = ["active", "superseded", "forgotten"];
/** Max characters of a memory. */
export const memoryCharsMax = 4_000;
/** Max characters of a topic key. */
export const topicKeyCharsMax = 200;
/** Bytes that a row counts in addition to its text. */
const rowBytes = 256;
/** Hits of each channel for each result of a search. */
const depth = 4;
/** Max rows of one batch of an erasure. */
const eraseRows = 500;

const { columns } = memoryTable;
const isReadable = (alias: string) =>
  `AND (CAST(? AS TEXT) IS NULL OR ((${alias}owner = ? OR (${alias}personal = 0 AND CAST(? AS BIGINT) = 1))
     AND (${alias}lost_with IS NULL OR ${alias}lost_with = ?)))`;
const filtered = (alias: string) =>
  [
    ...["manifest_id", "kind", "principal"].map((name) => `AND (CAST(? AS TEXT) IS NULL OR ${alias}${name} = ?)`),
    isReadable(alias),
  ].join(" ");

const insertMemory = insertInto(memoryTable);
const selectMemory = selectOne(memoryTable, ["id"]);
const insertWords = tenantSql("memory_search_insert", {
  sqlite: `INSERT INTO memory_search (content, rowid) SELECT ?, memory_key FROM memories WHERE tenant_id = :tenant AND id = ?`,
  postgres: `INSERT INTO memory_search (document, memory_key, tenant_id)
    SELECT to_tsvector('svc_words', ?), memory_key, tenant_id FROM memories WHERE tenant_id = :tenant AND id = ?`,
});
const supersede = tenantSql(
  "memories_supersede",
  `UPDATE memories SET status = 'superseded', superseded_by = ?, ts = ?, updated_at = ?, superseded_seq =
     (SELECT t.next_seq FROM threads t WHERE t.tenant_id = :tenant AND t.thread_key = memories.thread_key)
   WHERE tenant_id = :tenant AND manifest_id = ? AND topic_key = ? AND status = 'active' AND id <> ?
     AND (personal = 0 OR owner = ?)`,
);
const supersedeListed = tenantSql("memories_supersede_listed", {
  sqlite: supersedeIn("SELECT value FROM json_each(?)"),
  postgres: supersedeIn("SELECT jsonb_array_elements_text(CAST(? AS jsonb))"),
});
const changeStatus = tenantSql(
  "memory_status",
  `UPDATE memories SET status = ?, ts = ?, updated_at = ?, forgotten_by = ?, forgotten_rank = ?
   WHERE tenant_id = :tenant AND id = ? AND status = ? AND updated_at = ?`,
);
const use = tenantSql("memories_use", {
  sqlite: `UPDATE memories SET last_used_at = ? WHERE tenant_id = :tenant AND id IN (SELECT value FROM json_each(?))`,
  postgres: `UPDATE memories SET last_used_at = ?
    WHERE tenant_id = :tenant AND id IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))`,
});
const selectPage = tenantSql(
  "memories_page",
  `SELECT ${columns} FROM memories INDEXED BY memories_by_status
   WHERE tenant_id = :tenant AND status = ? AND (ts, id) < (?, ?) ${filtered("")} ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectPageOfThread = tenantSql(
  "memories_page_of_thread",
  `SELECT ${columns} FROM memories INDEXED BY memories_by_thread WHERE tenant_id = :tenant AND thread_id = ? AND status = ?
   AND (ts, id) < (?, ?) ${filtered("")} ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectOfAgent = tenantSql(
  "memories_of_agent",
  `SELECT ${columns} FROM memories INDEXED BY memories_by_agent WHERE tenant_id = :tenant AND manifest_id = ? AND status = 'active'
   ${isReadable("")} ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectOfPool = tenantSql(
  "memories_of_pool",
  `SELECT ${columns} FROM memories INDEXED BY memories_by_agent WHERE tenant_id = :tenant AND manifest_id = ? AND status = 'active'
   AND source <> 'operator' AND ((personal = 1 AND owner = ?) OR (personal = 0 AND CAST(? AS TEXT) = '')) ORDER BY ts DESC, id DESC LIMIT ?`,
);
const selectLost = systemSql(
  "memories_lost",
  `SELECT tenant_id, id, bytes FROM memories WHERE lost_with IS NOT NULL AND ${ownerIsGone("lost_with")} LIMIT ?`,
);
const selectAsOf = tenantSql(
  "memories_as_of",
  `SELECT ${columns} FROM memories WHERE tenant_id = :tenant AND origin_seq <= ? ${filtered("")}
   ORDER BY created_at DESC, id DESC LIMIT ?`,
);
const selectAsOfThread = tenantSql(
  "memories_as_of_thread",
  `SELECT ${columns} FROM memories INDEXED BY memories_by_turn WHERE tenant_id = :tenant AND thread_id = ? AND origin_seq <= ?
   ${filtered("")} ORDER BY origin_seq DESC, id DESC LIMIT ?`,
);
const selectHits = tenantSql("memory_hits", {
  sqlite: hitsFrom(wordMatches("memory_search", "memory_key").sqlite),
  postgres: hitsFrom(wordMatches("memory_search", "memory_key").postgres),
});
const ofKeys = {
  sqlite: "(SELECT value FROM json_each(?) wanted)",
  postgres: "(SELECT CAST(value AS BIGINT) FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))",
};
const selectByKeys = tenantSql("memories_of_keys", {
  sqlite: `SELECT ${columns} FROM memories INDEXED BY memories_key WHERE tenant_id = :tenant AND memory_key IN ${ofKeys.sqlite}`,
  postgres: `SELECT ${columns} FROM memories INDEXED BY memories_key WHERE tenant_id = :tenant AND memory_key IN ${ofKeys.postgres}`,
});
const nearest = nearestSearch(
  "memory_nearest",
  "memories",
  `EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = v.tenant_id AND m.memory_key = v.key AND m.status = 'active' ${filtered("m.")})`,
);
const selectOfPrincipal = tenantSql(
  "memories_of_principal",
  "SELECT id, bytes FROM memories WHERE tenant_id = :tenant AND principal = ? ORDER BY id LIMIT ?",
);
const selectOfThread = tenantSql(
  "memories_of_thread",
  "SELECT id, bytes FROM memories INDEXED BY memories_by_thread WHERE tenant_id = :tenant AND thread_id = ? LIMIT ?",
);
// The parameters are the same on both engines; the index of SQLite has no tenants.
const deleteWords = tenantSql("memory_search_delete", {
  sqlite: `DELETE FROM memory_search WHERE :tenant <> '' AND rowid IN
    (SELECT memory_key FROM memories WHERE tenant_id = :tenant AND id IN (SELECT value FROM json_each(?)))`,
  postgres: `DELETE FROM memory_search WHERE tenant_id = :tenant AND memory_key IN
    (SELECT memory_key FROM memories WHERE tenant_id = :tenant AND id IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb))))`,
});
const deleteMemories = tenantSql("memories_delete", {
  sqlite: "DELETE FROM memories WHERE tenant_id = :tenant AND id IN (SELECT value FROM json_each(?))",
  postgres:
    "DELETE FROM memories WHERE tenant_id = :tenant AND id IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))",
});
/** Locks the memories of a thread, so that a change and the deletion of the thread wait for each other. */
const lockOfThread = tenantSql(
  "memories_lock",
  "UPDATE memories SET bytes = bytes WHERE tenant_id = :tenant AND thread_key = ?",
);
const giveBackOfThread = tenantSql(
  "memories_give_back",
  `UPDATE stored_bytes SET bytes = bytes -
     (SELECT COALESCE(CAST(SUM(m.bytes) AS BIGINT), 0) FROM memories m WHERE m.tenant_id = :tenant AND m.thread_key = ?)
   WHERE tenant_id = :tenant AND kind = ?`,
);
const deleteWordsOfThread = tenantSql("memory_search_delete_of_thread", {
  sqlite: `DELETE FROM memory_search WHERE :tenant <> '' AND rowid IN
    (SELECT memory_key FROM memories WHERE tenant_id = :tenant AND thread_key = ?)`,
  postgres: `DELETE FROM memory_search WHERE tenant_id = :tenant AND memory_key IN
    (SELECT memory_key FROM memories WHERE tenant_id = :tenant AND thread_key = ?)`,
});
const keysOfThread = "SELECT memory_key FROM memories WHERE tenant_id = :tenant AND thread_key = ?";
const deleteVectorsOfThread = tenantSql(
  "memory_vectors_delete_of_thread",
  `DELETE FROM vectors WHERE tenant_id = :tenant AND corpus = 'memories' AND key IN (${keysOfThread})`,
);
const deleteQueuedOfThread = tenantSql(
  "memory_vector_queue_delete_of_thread",
  `DELETE FROM vector_queue WHERE tenant_id = :tenant AND corpus = 'memories' AND key IN (${keysOfThread})`,
);
const deleteOfThread = tenantSql(
  "memories_delete_of_thread",
  "DELETE FROM memories WHERE tenant_id = :tenant AND thread_key = ?",
);

function supersedeIn(ids: string): string {
  return `UPDATE memories SET status = 'superseded', superseded_by = ?, ts = ?, updated_at = ?, superseded_seq =
     (SELECT t.next_seq FROM threads t WHERE t.tenant_id = :tenant AND t.thread_key = memories.thread_key)
   WHERE tenant_id = :tenant AND status = 'active' AND source <> 'operator' AND id IN (${ids})`;
}

function hitsFrom(found: string): string {
  return `SELECT m.memory_key FROM (${found}) hit JOIN memories m ON m.memory_key = hit.memory_key
    WHERE m.tenant_id = :tenant AND m.status = 'active' ${filtered("m.")}
    ORDER BY hit.score DESC, m.created_at DESC, m.id LIMIT ?`;
}

/** Returns the kind of a word: a fact for words that are no kind. */
export function memoryKind(word: string): MemoryKind {
  return memoryKinds.find((kind) => kind === word) ?? "fact";
}

/** Returns a memory of the tenant. */
export function storedMemory(store: TenantStore, id: string): Promise<MemoryRow | undefined> {
  return selectMemory(store, id);
}

/** Returns the operations that insert a memory with its words, and the bytes to count. Refuses with conflict if its id exists. */
export function insertMemoryOps(
  store: TenantStore,
  { origin, ...written }: MemoryWritten,
  now: number,
  { vectorBytes, queueOps }: MemoryVector,
): { readonly ops: readonly WriteOp[]; readonly bytes: number } {
  const bytes =
    rowBytes + 2 * Buffer.byteLength(written.content) + Buffer.byteLength(written.topic_key ?? "") + vectorBytes;
  const row: MemoryRow = {
    ...written,
    ...(origin ?? { thread_id: "", thread_key: null, origin_seq: null }),
    ...{
      ts: now,
      memory_key: memoryKey(store.tenantId, written.id),
      status: "active",
      created_at: now,
      updated_at: now,
    },
    ...{
      superseded_by: null,
      superseded_seq: null,
      forgotten_by: null,
      forgotten_rank: null,
      last_used_at: null,
      bytes,
    },
  };
  const words = indexText(store.tenantId, `${written.content} ${written.topic_key ?? ""}`);
  return { ops: [insertMemory(store, row), store.op(insertWords, [words, written.id], 1), ...queueOps], bytes };
}

/**
 * Stores a memory with `ops` in the same batch. With `supersedes`, the other active memories of the agent with its topic key are
 * superseded, except personal ones of others. `limit` is the tenant's storage quota. Returns false if its id exists.
 * Refuses with storage_quota_exceeded.
 */
export async function writeMemory(
  store: TenantStore,
  written: MemoryWritten,
  {
    now,
    limit,
    vector,
    supersedes = false,
    ops = [],
  }: {
    readonly now: number;
    readonly limit: number;
    readonly vector: MemoryVector;
    readonly supersedes?: boolean;
    readonly ops?: readonly WriteOp[];
  },
): Promise<boolean> {
  const { id, manifest_id, topic_key, owner } = written;
  const retired =
    supersedes && topic_key !== null ? [store.op(supersede, [id, now, now, manifest_id, topic_key, id, owner])] : [];
  const inserted = insertMemoryOps(store, written, now, vector);
  return unlessChanged(() =>
    writeStored(store, { kind: "memories", bytes: inserted.bytes }, limit, [...inserted.ops, ...retired, ...ops]),
  );
}

/** Supersedes those of the memories that are active and not an operator's. */
export function supersedeOp(store: TenantStore, ids: readonly string[], by: string, now: number): WriteOp {
  return store.op(supersedeListed, [by, now, now, JSON.stringify(ids)]);
}

/** Forgets a memory as it was read. Returns false if another writer has changed it since. */
export function forgetMemory(
  store: TenantStore,
  row: MemoryRow,
  by: { readonly principal: string; readonly rank: number; readonly now: number },
  ops: readonly WriteOp[],
): Promise<boolean> {
  const changed = Math.max(by.now, row.updated_at + 1);
  const params = ["forgotten", changed, changed, by.principal, by.rank, row.id, row.status, row.updated_at];
  return unlessChanged(() => store.write([store.op(changeStatus, params, 1), ...ops]));
}

/** Restores a forgotten memory as it was read. Returns false if another writer has changed it since. */
export function restoreMemory(
  store: TenantStore,
  row: MemoryRow,
  now: number,
  ops: readonly WriteOp[],
): Promise<boolean> {
  const changed = Math.max(now, row.updated_at + 1);
  const params = ["active", row.created_at, changed, null, null, row.id, row.status, row.updated_at];
  return unlessChanged(() => store.write([store.op(changeStatus, params, 1), ...ops]));
}

/** Records that memories were recalled. */
export async function useMemories(store: TenantStore, ids: readonly string[], now: number): Promise<void> {
  if (ids.length > 0) await store.write([store.op(use, [now, JSON.stringify(ids)])]);
}

/** Returns one page of a status, newest change first. `thread_id` empty is outside any thread. Refuses with invalid_cursor. */
export async function memoryPage(
  store: TenantStore,
  {
    status,
    thread_id,
    ...filter
  }: MemoryFilter & { readonly status: MemoryStatus; readonly thread_id?: string | undefined },
  cursor: string | null,
  limit: number,
): Promise<Page<MemoryRow>> {
  const before = cursor === null ? [Number.MAX_SAFE_INTEGER, ""] : readCursor(cursor, ["number", "string"]);
  const params = [...before, ...filterParams(filter), limit + 1];
  // A page may skip many rows that do not match.
  const found =
    thread_id === undefined
      ? await store.readLong(selectPage, status, ...params)
      : await store.readLong(selectPageOfThread, thread_id, status, ...params);
  const rows = found.map(memoryTable.decode);
  const more = rows.length > limit;
  if (more) rows.pop();
  const last = rows.at(-1);
  return { rows, next_cursor: more && last ? writeCursor([last.ts, last.id]) : null };
}

/** Returns the newest active memories of an agent that a turn of the reader sees. */
export async function memoriesOfAgent(
  store: TenantStore,
  manifest: string,
  reader: MemoryReader,
  limit: number,
): Promise<MemoryRow[]> {
  return (await store.readLong(selectOfAgent, manifest, ...readerParams(reader), limit)).map(memoryTable.decode);
}

/** Returns the memories that turns up to `seq` wrote: of one thread, or of each at that turn. */
export async function memoriesAsOf(
  store: TenantStore,
  seq: number,
  { thread_id, ...filter }: MemoryFilter & { readonly thread_id?: string | undefined },
  limit: number,
): Promise<MemoryRow[]> {
  const params = [seq, ...filterParams(filter), limit];
  const rows =
    thread_id === undefined
      ? await store.readLong(selectAsOf, ...params)
      : await store.readLong(selectAsOfThread, thread_id, ...params);
  return rows.map(memoryTable.decode);
}

/**
 * Returns the active memories that match best: those with at least one word of `query`, and with a vector also the nearest ones.
 */
export async function searchMemories(
  store: TenantStore,
  query: string,
  vector: QueryVector | null,
  limit: number,
  filter: MemoryFilter,
): Promise<MemoryHit[]> {
  const words = anyWordQuery(store.tenantId, query);
  const params = filterParams(filter);
  const wanted = limit * depth;
  const [byWords, near] = await Promise.all([
    words === null ? [] : store.readLong(selectHits, words, ...params, wanted),
    vector === null ? [] : nearest(store, vector, wanted, params),
  ]);
  const lexical = byWords.map(({ memory_key }) => Number(memory_key));
  const fused = fuse({ lexical, vector: near.map(({ key }) => key) }, limit);
  if (fused.length === 0) return [];
  const rows = await store.read(selectByKeys, JSON.stringify(fused.map(({ key }) => key)));
  const byKey = new Map(rows.map(memoryTable.decode).map((row) => [row.memory_key, row]));
  return fused.flatMap(({ key, score, channels }) => {
    const memory = byKey.get(key);
    // The memory was forgotten after it was found.
    return memory?.status === "active" ? [{ memory, score, channels }] : [];
  });
}

/** Erases a memory, with `ops` in the same batch. Returns false if it is gone. */
export function eraseMemory(
  store: TenantStore,
  { id, bytes }: Pick<MemoryRow, "id" | "bytes">,
  ops: readonly WriteOp[],
): Promise<boolean> {
  return erase(store, [{ id, bytes }], ops);
}

/** Erases all memories of a principal or of a thread, in batches, and drops its captures. Returns the number of memories. */
export async function eraseMemoriesOf(
  store: TenantStore,
  of: { readonly principal: string } | { readonly thread_id: string },
): Promise<number> {
  const captures = "principal" in of ? of : { suffix: of.thread_id.slice(store.tenantId.length + 1) };
  await store.write([deleteCapturesOfOp(store, captures)]);
  for (let erased = 0; ; ) {
    const rows =
      "principal" in of
        ? await store.read(selectOfPrincipal, of.principal, eraseRows)
        : await store.read(selectOfThread, of.thread_id, eraseRows);
    if (rows.length === 0) return erased;
    if (await erase(store, rows as unknown as Pick<MemoryRow, "id" | "bytes">[], [])) erased += rows.length;
  }
}

/** Deletes the memories of a thread and subtracts their bytes from the quota. */
export function deleteMemoriesOps(store: TenantStore, threadKey: number): WriteOp[] {
  return [
    store.op(lockOfThread, [threadKey]),
    ...storedRows("memories").map((kind) => store.op(giveBackOfThread, [threadKey, kind])),
    store.op(deleteVectorsOfThread, [threadKey]),
    store.op(deleteQueuedOfThread, [threadKey]),
    store.op(deleteWordsOfThread, [threadKey]),
    store.op(deleteOfThread, [threadKey]),
    deleteCapturesOp(store, threadKey),
  ];
}

/** Erases up to `limit` memories whose host is gone. Returns their number. */
export async function eraseLostMemories(store: Store, host: string, limit: number): Promise<number> {
  const rows = await store.system.read(selectLost, ...othersThan(host), limit);
  const lost = rows as unknown as (Pick<MemoryRow, "id" | "bytes"> & { readonly tenant_id: string })[];
  for (const [tenantId, ofTenant] of Map.groupBy(lost, ({ tenant_id }) => tenant_id))
    await erase(store.tenant(tenantId), ofTenant, []);
  return rows.length;
}

/** Returns the newest facts of a pool that agents stored. */
export async function factsOfPool(
  store: TenantStore,
  { manifest_id, owner }: { readonly manifest_id: string; readonly owner: string },
  limit: number,
): Promise<MemoryRow[]> {
  return (await store.readLong(selectOfPool, manifest_id, owner, owner, limit)).map(memoryTable.decode);
}

function erase(
  store: TenantStore,
  rows: readonly Pick<MemoryRow, "id" | "bytes">[],
  ops: readonly WriteOp[],
): Promise<boolean> {
  const ids = JSON.stringify(rows.map(({ id }) => id));
  const bytes = rows.reduce((all, row) => all + row.bytes, 0);
  const vectors = rows.flatMap(({ id }) => {
    const key = memoryKey(store.tenantId, id);
    return deleteVectorsOps(store, "memories", key, key + 1);
  });
  const deleted = [...vectors, store.op(deleteWords, [ids]), store.op(deleteMemories, [ids], rows.length)];
  return unlessChanged(() => writeStored(store, { kind: "memories", bytes: -bytes }, 0, [...deleted, ...ops]));
}

function filterParams({ manifest_id, kind, principal, reader }: MemoryFilter): Param[] {
  const given = [manifest_id, kind, principal].flatMap((value) => [value ?? null, value ?? null]);
  return [...given, ...readerParams(reader)];
}

function readerParams(reader: MemoryReader | undefined): Param[] {
  const owner = reader?.owner ?? null;
  return [owner, owner, reader?.seesShared ? 1 : 0, reader?.host ?? ""];
}

/** Returns the key of a memory in searches. 52 bits: too many for two memories to share a key, and exact as a number. */
export function memoryKey(tenantId: string, id: string): number {
  const digest = createHash("sha256")
    .update(JSON.stringify([tenantId, id]))
    .digest("hex");
  return Number.parseInt(digest.slice(0, 13), 16);
}
