import { createHash } from "node:crypto";
import type { Store } from "../storage/store/store.ts";
import { indexText } from "../storage/tables/corpus-words.ts";
import { searchDocuments } from "../storage/tables/document-search.ts";
import { documentCorpus } from "../storage/tables/document-vectors.ts";
import { documentId, writeDocument } from "../storage/tables/documents.ts";
import { queueVectorsOp, storeVectors, type VectorModel } from "../storage/tables/vectors.ts";
import { type Language, passages, questions } from "./retrieval-set.ts";

// How well searches of documents find the passage that answers a question: by words, by vectors and by both.

/** A model of vectors. */
export interface QualityModel extends VectorModel {
  /** Returns vectors of unit length. */
  embed(texts: readonly string[]): Promise<readonly Float32Array[]>;
}

/** The figures of one channel in one language. */
export interface Quality {
  readonly channel: Channel;
  readonly language: Language | "all";
  /** The share of questions whose passage is among the first five. */
  readonly recall: number;
  /** The mean of 1 / rank of the passage among the first ten, 0 beyond. */
  readonly mrr: number;
}

/** What a search compares. */
export type Channel = "lexical" | "vector" | "hybrid";

const channels: readonly Channel[] = ["lexical", "vector", "hybrid"];
const languages = ["English", "German", "Japanese", "all"] as const;
const tenantId = "quality";
const hitsMax = 10;

/** So many that two pieces rarely share a number: with 512, collisions alone moved the recall of vectors by 7 points. */
const dimensions = 8_192;

/**
 * Models without weights: a vector has the pieces of three characters of a text, each once, or as often as the text has it. They find
 * other forms of a word and no synonyms.
 */
export const spellingModels: readonly QualityModel[] = [
  {
    model: "pieces, each once",
    dimensions,
    embed: async (texts) => texts.map((text) => spelling(new Set(piecesOf(text)))),
  },
  { model: "pieces, counted", dimensions, embed: async (texts) => texts.map((text) => spelling(piecesOf(text))) },
];

function piecesOf(text: string): string[] {
  return (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).flatMap((word) => {
    const padded = [...`^${word}$`];
    return padded.slice(2).map((_, at) => padded.slice(at, at + 3).join(""));
  });
}

function spelling(pieces: Iterable<string>): Float32Array {
  const vector = new Float32Array(dimensions);
  for (const piece of pieces) {
    const hash = createHash("sha256").update(piece).digest();
    const at = hash.readUInt16LE(0) % dimensions;
    vector[at] = (vector[at] ?? 0) + ((hash[2] ?? 0) % 2 === 0 ? 1 : -1);
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

/** Stores the passages and asks all questions in each channel. The store must compare vectors. */
export async function retrievalQuality(store: Store, model: QualityModel): Promise<readonly Quality[]> {
  const tenant = store.tenant(tenantId);
  for (const { id, text } of passages)
    await writeDocument(
      store,
      tenantId,
      {
        ...{ title: id, source: "", metadata: {}, chars: text.length, fileId: null },
        chunks: [{ content: text, words: indexText(tenantId, text) }],
      },
      {
        ...{ now: 1, documentsMax: 5_000, limit: 0, vectorBytes: 0 },
        queueOps: async (keys, ts) => [queueVectorsOp(tenant, "documents", keys, ts)],
      },
    );
  for (;;) {
    const queued = await documentCorpus.queued(tenant, 64);
    if (queued.length === 0) break;
    // The title names the passage, so it must not be part of the vector.
    const vectors = await model.embed(queued.map(({ text }) => (text ?? "").replace(/^.*\n/, "")));
    const made = queued.map(({ key, ts }, at) => ({ key, ts, vector: vectors[at] as Float32Array }));
    await storeVectors(tenant, "documents", model, made);
  }
  const ranks = new Map<Channel, number[]>();
  for (const channel of channels) {
    const ofChannel: number[] = [];
    for (const { text, passage } of questions) {
      const [vector] = channel === "lexical" ? [] : await model.embed([text]);
      const asked = channel === "vector" ? "" : text;
      const { model: name, dimensions } = model;
      const hits = await searchDocuments(tenant, asked, vector ? { model: name, dimensions, vector } : null, hitsMax);
      ofChannel.push(1 + hits.findIndex(({ doc_id }) => doc_id === documentId("", passage)));
    }
    ranks.set(channel, ofChannel);
  }
  return channels.flatMap((channel) =>
    languages.map((language) => {
      const all = ranks.get(channel) ?? [];
      const mine = all.filter((_, at) => language === "all" || questions[at]?.language === language);
      const sum = (score: (rank: number) => number) => mine.reduce((total, rank) => total + score(rank), 0);
      return {
        ...{ channel, language },
        recall: sum((rank) => (rank >= 1 && rank <= 5 ? 1 : 0)) / mine.length,
        mrr: sum((rank) => (rank === 0 ? 0 : 1 / rank)) / mine.length,
      };
    }),
  );
}

/** Returns the figures as a table of Markdown. */
export function qualityTable(model: string, figures: readonly Quality[]): string[] {
  const shown = (value: number) => (100 * value).toFixed(0);
  return [
    `| ${model} | ${languages.map((language) => `${language}: recall@5, MRR`).join(" | ")} |`,
    `| --- |${" --- |".repeat(languages.length)}`,
    ...channels.map((channel) => {
      const cells = languages.map((language) => {
        const found = figures.find((one) => one.channel === channel && one.language === language);
        return found === undefined ? "" : `${shown(found.recall)}, ${shown(found.mrr)}`;
      });
      return `| ${channel} | ${cells.join(" | ")} |`;
    }),
  ];
}
