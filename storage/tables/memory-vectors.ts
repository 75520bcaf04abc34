import { systemSql, tenantSql } from "../store/statements.ts";
import type { TenantStore } from "../store/store.ts";
import type { TextCorpus } from "./text-corpus.ts";
import type { VectorModel } from "./vectors.ts";

// The memories as a corpus with vectors. The vector of a memory includes its topic key. A memory never changes, so its version
// is the time of its creation.

const selectQueued = tenantSql(
  "memory_vectors_queued",
  `SELECT q.key, q.ts, m.content, m.topic_key FROM vector_queue q
   LEFT JOIN memories m ON m.tenant_id = q.tenant_id AND m.memory_key = q.key
   WHERE q.tenant_id = :tenant AND q.corpus = 'memories' ORDER BY q.key LIMIT ?`,
);
const selectLast = systemSql(
  "memory_vectors_last",
  "SELECT MAX(memory_key) AS key FROM (SELECT memory_key FROM memories WHERE memory_key > ? ORDER BY memory_key LIMIT ?) counted",
);
const queueMissing = systemSql(
  "memory_vectors_queue_missing",
  `INSERT INTO vector_queue (tenant_id, corpus, key, ts)
   SELECT m.tenant_id, 'memories', m.memory_key, m.created_at FROM memories m
   WHERE m.memory_key > ? AND m.memory_key <= ? AND NOT EXISTS (SELECT 1 FROM vectors v
     WHERE v.tenant_id = m.tenant_id AND v.corpus = 'memories' AND v.key = m.memory_key AND v.model = ? AND v.dimensions = ?)
   ON CONFLICT DO NOTHING`,
);
const count = systemSql("memory_vectors_count", {
  sqlite: countsOf("vector_bits"),
  postgres: countsOf("vectors"),
});
const selectModels = tenantSql("memory_vectors_of_keys", {
  sqlite: modelsIn("vector_bits", "(SELECT value FROM json_each(?) wanted)"),
  postgres: modelsIn(
    "vectors",
    "(SELECT CAST(value AS BIGINT) FROM jsonb_array_elements_text(CAST(? AS jsonb)) wanted (value))",
  ),
});

function countsOf(table: string): string {
  return `SELECT (SELECT COUNT(*) FROM memories) AS texts,
    (SELECT COUNT(*) FROM ${table} v WHERE v.corpus = 'memories' AND v.model = ? AND v.dimensions = ?) AS embedded,
    (SELECT COUNT(*) FROM vector_queue q WHERE q.corpus = 'memories') AS queued`;
}

function modelsIn(table: string, keys: string): string {
  return `SELECT key, model, dimensions FROM ${table} WHERE tenant_id = :tenant AND corpus = 'memories' AND key IN ${keys}`;
}

export const memoryCorpus: TextCorpus = {
  corpus: "memories",
  async queued(store, limit) {
    const rows = await store.read(selectQueued, limit);
    return rows.map(({ key, ts, content, topic_key }) => ({
      key: Number(key),
      ts: Number(ts),
      text: content === null ? null : topic_key === null ? String(content) : `${topic_key}\n${content}`,
    }));
  },
  async queueMissing({ system }, { model, dimensions }, after, limit) {
    const [row] = await system.read(selectLast, after, limit);
    if (row === undefined || row.key === null) return null;
    const last = Number(row.key);
    await system.write([system.op(queueMissing, [after, last, model, dimensions])]);
    return last;
  },
  async count({ system }, { model, dimensions }) {
    const [row] = await system.readLong(count, model, dimensions);
    return { texts: Number(row?.texts), embedded: Number(row?.embedded), queued: Number(row?.queued) };
  },
};

/** Returns the models of the vectors of memories, by the keys of the memories. */
export async function memoryVectors(
  store: TenantStore,
  memoryKeys: readonly number[],
): Promise<ReadonlyMap<number, VectorModel>> {
  if (memoryKeys.length === 0) return new Map();
  const rows = await store.read(selectModels, JSON.stringify(memoryKeys));
  return new Map(
    rows.map(({ key, model, dimensions }) => [Number(key), { model: String(model), dimensions: Number(dimensions) }]),
  );
}
