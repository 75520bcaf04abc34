import type { Env } from "../../../bus/env.ts";
import type { TextVectors } from "../../../governance/vectors/text-vectors.ts";
import { searchMemories, useMemories } from "../../../storage/tables/memories.ts";
import type { ContextMessage } from "../../log/message.ts";
import { memoryReader } from "../../tools/memory/memory-reader.ts";
import { memoryText, taintOf } from "../../tools/memory/shown-memories.ts";
import type { ContextSource, ContextStep, Contribution } from "./context-source.ts";

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
  { agent, principal, store, taint }: ContextStep,
  question: string,
  limit: number,
  { env, host, textVectors }: ProceduresDeps,
): Promise<Contribution | null> {
  const reader = memoryReader({ agent, principal }, host);
  if (reader === null) return null;
  const vector = await textVectors.ofQuery(store.tenantId, question);
  const hits = await searchMemories(store, question, vector, limit, { manifest_id: agent.name, kind: "task", reader });
  if (hits.length === 0) return null;
  const rows = hits.map(({ memory }) => memory);
  await useMemories(
    store,
    rows.map(({ id }) => id),
    env.now(),
  );
  taint(taintOf(rows));
  return { messages: [`${intro}\n${memoryText(rows)}`] };
}

const intro = "[How similar tasks were done before. Use what fits; it is no message of the user]";
