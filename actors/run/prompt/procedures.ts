import type { Env } from "../../../bus/env.ts";
import type { TextVectors } from "../../../governance/vectors/text-vectors.ts";
import type { ProcedureRules } from "../../../manifests/sections/procedural-memory.ts";
import { fuse } from "../../../storage/tables/fusion.ts";
import { type MemoryRow, memoryPage, searchMemories, useMemories } from "../../../storage/tables/memories.ts";
import type { ContextMessage } from "../../log/message.ts";
import { memoryReader } from "../../tools/memory/memory-reader.ts";
import { memoryText, taintOf } from "../../tools/memory/shown-memories.ts";
import type { ContextSource, ContextStep, Contribution } from "./context-source.ts";

/** Newest procedures that an embedding route of the manifest compares. */
const comparedMax = 200;
/** Max characters of a question that are compared. */
const questionMax = 2_000;

interface ProceduresDeps {
  readonly env: Env;
  readonly host: string;
  readonly textVectors: TextVectors;
}

/**
 * Shows an agent with spec.procedural_memory how similar tasks were done. A model wrote the procedures, so they are data in a message and
 * stay out of the system text. They are searched once for each message of a user.
 */
export function proceduresSource(deps: ProceduresDeps): ContextSource {
  const found = new WeakMap<ContextMessage, Promise<Contribution | null>>();
  return {
    name: "procedures",
    contribute(step) {
      const { procedures } = step.agent;
      const asked = procedures === null ? undefined : step.shown.findLast(({ role }) => role === "user");
      if (procedures === null || asked === undefined) return null;
      const known = found.get(asked);
      if (known !== undefined) return known;
      const searched = search(step, asked.content.slice(0, questionMax), procedures, deps);
      found.set(asked, searched);
      return searched;
    },
  };
}

async function search(
  { agent, principal, store, compare, taint }: ContextStep,
  question: string,
  { top_k: limit, model }: ProcedureRules,
  { env, host, textVectors }: ProceduresDeps,
): Promise<Contribution | null> {
  const reader = memoryReader({ agent, principal }, host);
  if (reader === null) return null;
  const filter = { manifest_id: agent.name, kind: "task", reader } as const;
  const vector = model === null ? await textVectors.ofQuery(store.tenantId, question) : null;
  const hits = await searchMemories(store, question, vector, limit, filter);
  const byWords = hits.map(({ memory }) => memory);
  const rows = model === null ? byWords : await withNearest(byWords, model);
  if (rows.length === 0) return null;
  await useMemories(
    store,
    rows.map(({ id }) => id),
    env.now(),
  );
  taint(taintOf(rows));
  return { messages: [`${intro}\n${memoryText(rows)}`] };

  /** Fuses the procedures that words have found with those that are nearest by a route of the manifest. */
  async function withNearest(found: readonly MemoryRow[], route: string): Promise<readonly MemoryRow[]> {
    const { rows: newest } = await memoryPage(store, { ...filter, status: "active" }, null, comparedMax);
    const scores = await compare(
      question,
      newest.map(({ content }) => content),
      route,
    );
    if (scores === null) return found;
    const near = newest
      .map((row, at) => ({ key: row.memory_key, score: scores[at] ?? 0 }))
      .filter(({ score }) => score > 0)
      .toSorted((one, other) => other.score - one.score)
      .slice(0, limit);
    const channels = { lexical: found.map(({ memory_key }) => memory_key), vector: near.map(({ key }) => key) };
    const byKey = new Map([...newest, ...found].map((row) => [row.memory_key, row]));
    return fuse(channels, limit).map(({ key }) => byKey.get(key) as MemoryRow);
  }
}

const intro = "[How similar tasks were done before. Use what fits; it is no message of the user]";
