import { breathe, type Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import { type Row, systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, Store, TenantStore, WriteOp } from "../store/store.ts";
import { type EventRole, eventKeys, eventsMax, type SeqRange, wholeLog } from "./events.ts";
import { markWords, searchedCharsMax, searchWords, wordParts } from "./search-words.ts";

// Full-text search over the messages of users and agents. Turns do not index: the row of a thread stores its index
// position, and a search or a timer indexes the rest. The index is FTS5 without the texts on SQLite, and a tsvector on
// Postgres. Each word carries the mark of its tenant. A search therefore scans entries of one tenant only, and finds a
// rare word quickly in any database.

/** A message that matches a search. */
export interface SearchHit {
  /** Suffix of the thread, and the uid from which its event ids are built. */
  readonly suffix: string;
  readonly uid: string;
  readonly seq: number;
  readonly ts: number;
  readonly role: EventRole;
  readonly content: string;
  /** 1 for the best hit of this search, less for the others. It reveals nothing about other tenants' texts. */
  readonly rank: number;
}

/** Max words of a search; further ones are ignored. */
const queryWordsMax = 32;
/**
 * Limits of one indexing batch, which ends with the message that exceeds one of them. A Chinese character is a word of
 * 16 characters in the index, so bytes alone are no measure.
 */
const batch = { messages: 64, bytes: 256 * 1024, words: 20_000 } as const;
/** Max threads per batch. */
const batchThreads = 16;
/** Max batches that a search waits for. The timer indexes a longer backlog. */
const batchesBeforeSearch = 32;

/** Max hits of a word for a direct search; searches with more hits are long reads. */
const fewHits = 64;

const unindexedColumns = "tenant_id, thread_key, indexed_seq, next_seq";
const selectUnindexed = systemSql(
  "search_unindexed_threads",
  `SELECT ${unindexedColumns} FROM threads WHERE indexed_seq < next_seq ORDER BY tenant_id, thread_key LIMIT ?`,
);
const selectUnindexedOfTenant = tenantSql(
  "search_unindexed_threads_of_tenant",
  `SELECT ${unindexedColumns} FROM threads WHERE tenant_id = :tenant AND indexed_seq < next_seq ORDER BY thread_key LIMIT ?`,
);
const selectMessages = tenantSql(
  "search_messages_to_index",
  // Computes the lengths without reading long texts.
  `SELECT e.event_key, found.bytes, CASE WHEN found.upto - found.bytes < ? THEN substr(e.content, 1, ${searchedCharsMax}) END AS content
   FROM (SELECT event_key, bytes, SUM(bytes) OVER (ORDER BY event_key) AS upto
     FROM (SELECT event_key, OCTET_LENGTH(content) AS bytes FROM events
       WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? AND kind = 'message' AND role IN ('user', 'assistant')
       ORDER BY event_key LIMIT ?) sizes) found
   JOIN events e ON e.event_key = found.event_key
   WHERE e.tenant_id = :tenant ORDER BY e.event_key`,
);
// Guards an indexing batch: the first process to move the index position does the work.
const moveMark = tenantSql(
  "search_move_mark",
  "UPDATE threads SET indexed_seq = ? WHERE tenant_id = :tenant AND thread_key = ? AND indexed_seq = ?",
);
const insertWords = tenantSql("search_insert_words", {
  sqlite: `INSERT OR REPLACE INTO event_search (content, rowid)
    SELECT ?, event_key FROM events WHERE tenant_id = :tenant AND event_key = ?`,
  postgres: `INSERT INTO event_search (document, tenant_id, event_key)
    SELECT to_tsvector('svc_words', ?), tenant_id, event_key FROM events WHERE tenant_id = :tenant AND event_key = ?
    ON CONFLICT (event_key) DO UPDATE SET document = excluded.document`,
});
const deleteWords = tenantSql("search_delete_words", {
  sqlite: `DELETE FROM event_search WHERE rowid IN
    (SELECT event_key FROM events WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?)`,
  postgres: "DELETE FROM event_search WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ?",
});
const selectHits = tenantSql("search_hits", {
  sqlite: hitsFrom(
    "SELECT rowid AS event_key, -bm25(event_search) AS score FROM event_search WHERE event_search MATCH ?",
  ),
  postgres: hitsFrom(`SELECT event_key, ts_rank(document, query.words) AS score
    FROM event_search, (SELECT plainto_tsquery('svc_words', ?) AS words) query
    WHERE document @@ query.words AND numnode(query.words) > 0`),
});
const selectFew = tenantSql("search_few_hits", {
  sqlite: fewFrom("SELECT rowid AS event_key FROM event_search WHERE event_search MATCH ?"),
  postgres: fewFrom("SELECT event_key FROM event_search WHERE document @@ plainto_tsquery('svc_words', ?)"),
});

function hitsFrom(matches: string): string {
  return `SELECT e.event_key, e.ts, e.role, e.content, t.thread_key, t.suffix, t.uid, hit.score
    FROM (${matches} ORDER BY score DESC, event_key DESC LIMIT ?) hit
    JOIN events e ON e.event_key = hit.event_key
    JOIN threads t ON t.thread_key = e.event_key / ${eventsMax}
    WHERE e.tenant_id = :tenant AND t.tenant_id = :tenant
    ORDER BY hit.score DESC, e.event_key DESC`;
}

function fewFrom(matches: string): string {
  return `SELECT e.event_key FROM (${matches} LIMIT ?) hit JOIN events e ON e.event_key = hit.event_key
    WHERE e.tenant_id = :tenant`;
}

/**
 * Returns the messages of a tenant that contain every word of `query`, best first. A query without words has no hits.
 */
export async function searchEvents(store: TenantStore, query: string, limit: number, env: Env): Promise<SearchHit[]> {
  const wanted = [...new Set(searchWords(query))].slice(0, queryWordsMax);
  if (wanted.length === 0) return [];
  await indexTenant(store, batchesBeforeSearch, env);
  const marked = markWords(store.tenantId, wanted);
  const text = marked.map((word) => `"${word}"`).join(" ");
  // Of several words, the cost of the intersection is not bounded by their hits.
  const isRare = marked.length === 1 && (await store.read(selectFew, text, fewHits + 1)).length <= fewHits;
  const rows = await store[isRare ? "read" : "readLong"](selectHits, text, limit);
  const best = (rows[0]?.score as number) || 1;
  return rows.map((row) => ({
    suffix: row.suffix as string,
    uid: row.uid as string,
    seq: (row.event_key as number) - (row.thread_key as number) * eventsMax,
    ts: row.ts as number,
    role: row.role as EventRole,
    content: row.content as string,
    rank: (row.score as number) / best,
  }));
}

/** Indexes new messages of all threads, in up to `batchesMax` batches. Returns true if none are left. */
export function indexEvents(store: Store, batchesMax: number, env: Env): Promise<boolean> {
  return indexBatches(
    () => store.system.read(selectUnindexed, batchThreads),
    (tenantId) => store.tenant(tenantId),
    store.system,
    batchesMax,
    env,
  );
}

/** Indexes new messages of one tenant. */
function indexTenant(store: TenantStore, batchesMax: number, env: Env): Promise<boolean> {
  return indexBatches(
    () => store.read(selectUnindexedOfTenant, batchThreads),
    () => store,
    store,
    batchesMax,
    env,
  );
}

/**
 * Removes the events of a thread in a range from the index. Place it before `deleteEventsOp` in the batch, because on
 * SQLite it reads the log.
 */
export function deleteWordsOp(store: TenantStore, threadKey: number, range: SeqRange = wholeLog): WriteOp {
  return store.op(deleteWords, eventKeys(threadKey, range));
}

async function indexBatches(
  unindexed: () => Promise<Row[]>,
  tenant: (tenantId: string) => TenantStore,
  writer: Scope,
  batchesMax: number,
  env: Env,
): Promise<boolean> {
  for (let done = 0; done < batchesMax; done++) {
    const threads = await unindexed();
    if (threads.length === 0) return true;
    const ops: WriteOp[] = [];
    const room = { ...batch };
    for (const thread of threads) {
      if (isFull(room)) break;
      ops.push(...(await indexOps(tenant(thread.tenant_id as string), thread, room, env)));
    }
    try {
      await writer.write(ops);
    } catch (error) {
      // Another thread has indexed one of these, or it was deleted; the next query shows the rest.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
  return (await unindexed()).length === 0;
}

/** The remaining capacity of a batch. */
type Room = Record<keyof typeof batch, number>;

function isFull({ messages, bytes, words }: Room): boolean {
  return messages <= 0 || bytes <= 0 || words <= 0;
}

/** Returns operations that index a thread's next messages: at least one, and as many as fit. */
async function indexOps(store: TenantStore, thread: Row, room: Room, env: Env): Promise<WriteOp[]> {
  const key = thread.thread_key as number;
  const from = thread.indexed_seq as number;
  const base = key * eventsMax;
  let to = thread.next_seq as number;
  const inserts: WriteOp[] = [];
  for (const message of await store.read(selectMessages, room.bytes, base + from, base + to, room.messages)) {
    const event = message.event_key as number;
    const marked: string[] = [];
    for (const part of wordParts(message.content as string)) {
      marked.push(markWords(store.tenantId, part).join(" "));
      room.words -= part.length;
      // Lets other work of this thread run.
      await breathe(env);
    }
    inserts.push(store.op(insertWords, [marked.join(" "), event]));
    room.messages--;
    room.bytes -= message.bytes as number;
    if (isFull(room)) {
      to = event - base + 1;
      break;
    }
  }
  return [store.op(moveMark, [to, key, from], 1), ...inserts];
}

const indexIdleMs = 2_000;
const indexBusyMs = 50;
/** The index pauses for this many times the duration of its last batch, so that it yields to turns on a busy server. */
const indexPause = 20;

/** Indexes new messages. */
export const searchIndexTask: RepeatedTask<{ readonly store: Store; readonly env: Env }> = {
  name: "search_index",
  of: "process",
  async run({ store, env }) {
    const startedAt = env.monotonic();
    if (await indexEvents(store, 1, env)) return indexIdleMs;
    return Math.max(indexBusyMs, indexPause * (env.monotonic() - startedAt));
  },
};
