import { breathe, type Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type Row, systemSql, tenantSql } from "../store/statements.ts";
import type { Scope, Store, TenantStore, WriteOp } from "../store/store.ts";
import { type EventRole, eventKeys, eventsMax, type SeqRange, wholeLog } from "./events.ts";
import { markWords, searchedCharsMax, searchWords, wordParts } from "./search-words.ts";

// Full text over the messages of people and agents. Turns do not pay for it: a thread's row says how far its log is indexed,
// and the rest is fetched before a search, and now and then. On SQLite the index is FTS5 without the texts, on Postgres a
// tsvector. Each word bears its tenant's mark, so that a search walks the entries of one tenant's words only and costs what that
// tenant has of them: a rare word is found at once, however much else is stored.

/** A message that a search has found. */
export interface SearchHit {
  /** The thread's part of its id, and the uid that its event ids are made from. */
  readonly suffix: string;
  readonly uid: string;
  readonly seq: number;
  readonly ts: number;
  readonly role: EventRole;
  readonly content: string;
  /** 1 for the best hit of this search, less for the others. It says nothing about other tenants' texts. */
  readonly rank: number;
}

/** Words of one search; the rest is ignored. */
const queryWordsMax = 32;
/**
 * What one indexing batch takes: it ends with the message that goes beyond one of these. In the index a character of Chinese is a word
 * of 16 characters, so that bytes alone say little.
 */
const batch = { messages: 64, bytes: 256 * 1024, words: 20_000 } as const;
/** Threads that the messages of a batch are taken from. */
const batchThreads = 16;
/** Batches that a search waits for. A backlog beyond them is left to the timer. */
const batchesBeforeSearch = 32;

/** A word that so few messages have is looked for at once; other searches are made where they keep nobody waiting. */
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
  // Lengths are known without reading what is long.
  `SELECT e.event_key, found.bytes, CASE WHEN found.upto - found.bytes < ? THEN substr(e.content, 1, ${searchedCharsMax}) END AS content
   FROM (SELECT event_key, bytes, SUM(bytes) OVER (ORDER BY event_key) AS upto
     FROM (SELECT event_key, OCTET_LENGTH(content) AS bytes FROM events
       WHERE tenant_id = :tenant AND event_key >= ? AND event_key < ? AND kind = 'message' AND role IN ('user', 'assistant')
       ORDER BY event_key LIMIT ?) sizes) found
   JOIN events e ON e.event_key = found.event_key
   WHERE e.tenant_id = :tenant ORDER BY e.event_key`,
);
// The guard of an indexing batch: whoever moves the mark first does the work.
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

/** The messages of a tenant that have every word of `query`, the best first. A query without words has no hits. */
export async function searchEvents(store: TenantStore, query: string, limit: number, env: Env): Promise<SearchHit[]> {
  const wanted = [...new Set(searchWords(query))].slice(0, queryWordsMax);
  if (wanted.length === 0) return [];
  await indexTenant(store, batchesBeforeSearch, env);
  const marked = markWords(store.tenantId, wanted);
  const text = marked.map((word) => `"${word}"`).join(" ");
  // What several words have in common is not bounded by what there is of each.
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

/** Indexes what is new in all threads, at most `batchesMax` batches of it. Answers whether nothing was left. */
export function indexEvents(store: Store, batchesMax: number, env: Env): Promise<boolean> {
  return indexBatches(
    () => store.system.read(selectUnindexed, batchThreads),
    (tenantId) => store.tenant(tenantId),
    store.system,
    batchesMax,
    env,
  );
}

/** The same for one tenant. */
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
 * Takes the events of a thread in a range out of the index. Goes before `deleteEventsOp` in its batch: on SQLite the log says what
 * there is to delete.
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
      // Another thread has indexed one of these, or it was deleted: the next look shows what is left.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }
  return (await unindexed()).length === 0;
}

/** What a batch still takes. */
type Room = Record<keyof typeof batch, number>;

function isFull({ messages, bytes, words }: Room): boolean {
  return messages <= 0 || bytes <= 0 || words <= 0;
}

/** What moves one thread's mark forward, by one message at least and as many as there is room for. */
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
      // Who else is served by this thread has a turn.
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
