import { systemSql } from "../store/statements.ts";
import type { Store } from "../store/store.ts";
import type { TextCorpus } from "./text-corpus.ts";
import type { VectorModel } from "./vectors.ts";

// A rebuild queues every text without a vector of the present model, page by page. A counter keeps how far it has come, so that
// it continues after a restart.

/** Texts of one page. */
const pageTexts = 500;

const start = systemSql(
  "vector_rebuild_start",
  "INSERT INTO counters (name, value) VALUES (?, -1) ON CONFLICT (name) DO UPDATE SET value = -1",
);
const selectAt = systemSql("vector_rebuild_at", "SELECT value FROM counters WHERE name = ?");
const move = systemSql("vector_rebuild_move", "UPDATE counters SET value = ? WHERE name = ?");
const end = systemSql("vector_rebuild_end", "DELETE FROM counters WHERE name = ?");

/** Starts a rebuild of the corpora, or starts it again. */
export async function startRebuild({ system }: Store, corpora: readonly TextCorpus[]): Promise<void> {
  await system.write(corpora.map(({ corpus }) => system.op(start, [nameOf(corpus)])));
}

/** True while a rebuild looks for texts. */
export async function isRebuilding({ system }: Store, corpora: readonly TextCorpus[]): Promise<boolean> {
  for (const { corpus } of corpora) if ((await system.read(selectAt, nameOf(corpus))).length > 0) return true;
  return false;
}

/** Queues one page of each corpus. Returns true if there may be more. */
export async function continueRebuild(
  store: Store,
  model: VectorModel,
  corpora: readonly TextCorpus[],
): Promise<boolean> {
  const { system } = store;
  let isMore = false;
  for (const { corpus, queueMissing } of corpora) {
    const name = nameOf(corpus);
    const [row] = await system.read(selectAt, name);
    if (row === undefined) continue;
    const last = await queueMissing(store, model, Number(row.value), pageTexts);
    await system.write([last === null ? system.op(end, [name]) : system.op(move, [last, name])]);
    isMore ||= last !== null;
  }
  return isMore;
}

function nameOf(corpus: string): string {
  return `vector_rebuild_${corpus}`;
}
