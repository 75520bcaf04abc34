import { mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { localEmbedder, localEmbeddingRoute, localModelsAreInstalled } from "../actors/models/local-embedder.ts";
import { systemEnv } from "../bus/env.ts";
import { readSettings } from "../governance/settings/settings.ts";
import { unitVectors } from "../governance/vectors/unit-vectors.ts";
import { openStore } from "../storage/client.ts";
import { migrate } from "../storage/migrate.ts";
import { startStoreThread } from "../storage/start.ts";
import type { StoreConfig } from "../storage/store/config.ts";
import type { Store } from "../storage/store/store.ts";
import { indexText } from "../storage/tables/corpus-words.ts";
import { searchDocuments } from "../storage/tables/document-search.ts";
import { documentCorpus } from "../storage/tables/document-vectors.ts";
import { writeDocument } from "../storage/tables/documents.ts";
import { queueVectorsOp, storeVectors } from "../storage/tables/vectors.ts";
import { type QualityModel, qualityTable, retrievalQuality, spellingModels } from "./retrieval-quality.ts";

// Searches of a tenant with many chunks on SQLite, beside 1,000 tenants with ten chunks each. The store is that of the server;
// vectors are random, which is the worst case for the bits that are compared first.

const dimensions = 768;
const model = { model: "perf", dimensions };
/** Chunks of the large tenant. */
export const recallChunks = 100_000;
const others = 1_000;
const chunksOfOther = 10;
const chunksOfDocument = 2_000;
const searches = 50;
const limit = 5;
const words = [
  "harbour",
  "lantern",
  "meadow",
  "copper",
  "violin",
  "glacier",
  "orchard",
  "compass",
  "saffron",
  "timber",
];

/** Measures searches over `chunks` chunks of one tenant, and returns lines for the terminal. */
export async function runRecallScenario(
  dataDir: string,
  chunks: number,
  note: (line: string) => void,
): Promise<string[]> {
  const directory = mkdtempSync(join(dataDir, "recall-"));
  const config: StoreConfig = { engine: "sqlite", path: join(directory, "svc.db") };
  const env = systemEnv();
  await migrate(config, { target: "head", downgrade: false });
  const thread = startStoreThread(config);
  await thread.ready;
  const store = openStore(env, config, thread.attach());
  try {
    note(`storing ${chunks} chunks of one tenant and ${others * chunksOfOther} of others`);
    for (let at = 0; at < chunks; at += chunksOfDocument)
      await fill(store, "large", `Document ${at}`, Math.min(chunksOfDocument, chunks - at));
    for (let at = 0; at < others; at++) await fill(store, `tenant${at}`, "Small", chunksOfOther);
    const bytes = statSync(config.path).size + statSync(`${config.path}-wal`).size;
    const before = process.memoryUsage().rss;
    const lines = [
      `${chunks} chunks, ${others} tenants with ${chunksOfOther}: ${Math.round(bytes / 2 ** 20)} MiB on disk`,
    ];
    for (const [tenant, label] of [
      ["large", `tenant with ${chunks} chunks`],
      ["tenant7", `tenant with ${chunksOfOther} chunks`],
    ] as const) {
      lines.push(`${label}, by words: ${await measured(store, tenant, true, false)}`);
      lines.push(`${label}, by vectors: ${await measured(store, tenant, false, true)}`);
      lines.push(`${label}, by both: ${await measured(store, tenant, true, true)}`);
    }
    lines.push(`resident memory grew by ${Math.round((process.memoryUsage().rss - before) / 2 ** 20)} MiB`);
    for (const quality of [...spellingModels, ...localModels()]) {
      note(`asking the questions of the retrieval set: ${quality.model}`);
      lines.push("", ...qualityTable(quality.model, await retrievalQuality(store, quality)));
    }
    return lines;
  } finally {
    store.close();
    await thread.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The model of SVC_MEMORY_MODEL_DIR and SVC_MEMORY_EMBEDDING_MODEL, if it and its package are there. */
function localModels(): readonly QualityModel[] {
  const { settings } = readSettings(process.env);
  if (settings.memoryModelDir === null || !localModelsAreInstalled()) return [];
  const embedder = localEmbedder(settings, systemEnv());
  const [route, dimensions] = [localEmbeddingRoute(settings), settings.memoryEmbeddingDim];
  const embed = async (inputs: readonly string[]): Promise<Float32Array[]> => {
    const { vectors } = await embedder.start({ route, inputs: [...inputs], dimensions }).reply;
    const page = { vectors: Buffer.from(vectors).toString("base64"), dimensions };
    return unitVectors(page, inputs.length).map((vector) => vector ?? new Float32Array(dimensions));
  };
  return [{ model: route.model, dimensions, embed }];
}

async function fill(store: Store, tenantId: string, title: string, count: number): Promise<void> {
  const tenant = store.tenant(tenantId);
  const chunks = Array.from({ length: count }, () => {
    const content = Array.from({ length: 40 }, () => words[Math.floor(Math.random() ** 3 * words.length)] ?? "").join(
      " ",
    );
    return { content, words: indexText(tenantId, content) };
  });
  await writeDocument(
    store,
    tenantId,
    { title, source: "", metadata: {}, chars: 1, chunks, fileId: null },
    {
      ...{ now: Date.now(), documentsMax: 5_000, limit: 0, vectorBytes: 0 },
      queueOps: async (keys, ts) => [queueVectorsOp(tenant, "documents", keys, ts)],
    },
  );
  for (;;) {
    const queued = await documentCorpus.queued(tenant, 256);
    if (queued.length === 0) return;
    await storeVectors(
      tenant,
      "documents",
      model,
      queued.map(({ key, ts }) => ({ key, ts, vector: randomVector() })),
    );
  }
}

async function measured(store: Store, tenantId: string, byWords: boolean, byVector: boolean): Promise<string> {
  const times: number[] = [];
  for (let at = 0; at < searches; at++) {
    const query = byWords ? `${words[at % words.length]} ${words[(at * 3 + 1) % words.length]}` : "";
    const began = performance.now();
    await searchDocuments(store.tenant(tenantId), query, byVector ? { ...model, vector: randomVector() } : null, limit);
    times.push(performance.now() - began);
  }
  times.sort((one, other) => one - other);
  const at = (part: number) => (times[Math.floor(times.length * part)] ?? 0).toFixed(1);
  return `p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`;
}

function randomVector(): Float32Array {
  const vector = Float32Array.from({ length: dimensions }, () => Math.random() - 0.5);
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}
