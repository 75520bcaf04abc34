import { isSummary } from "../../log/compaction.ts";
import type { ContextMessage } from "../../log/message.ts";
import { groupStart } from "./working-set.ts";

/** Messages directly before the running turn that are always shown. */
const recentMessages = 4;

/** The selection of `semantic:N`. It is made once per turn, so that all calls of the turn share a prompt prefix. */
export interface Chosen {
  readonly earlier: readonly ContextMessage[];
  /** Index from which the whole branch is shown. */
  readonly from: number;
}

/** Scores each message by similarity to the query. Unrelated messages score 0 or less. */
export type Compare = (messages: readonly ContextMessage[], query: string) => Promise<number[]>;

/**
 * Selects up to `count` earlier messages that are most similar to the user messages of the running turn, in their order. A call and its
 * results are selected together or not at all.
 */
export async function chooseSimilar(
  branch: readonly ContextMessage[],
  turnStart: number,
  count: number,
  compare: Compare,
): Promise<Chosen> {
  const from = groupStart(branch, Math.max(0, Math.min(turnStart, branch.length - recentMessages)));
  const summary = isSummary(branch[0]) && from > 0 ? branch.slice(0, 1) : [];
  const searched = branch.slice(summary.length, from);
  const query = branch.slice(turnStart).flatMap(({ role, content }) => (role === "user" ? [content] : []));
  const scores = await compare(searched, query.join("\n"));
  const groups: { readonly start: number; readonly end: number; readonly score: number }[] = [];
  for (let end = searched.length; end > 0; ) {
    const start = groupStart(searched, end - 1);
    // The first page may begin inside a group; such results are skipped, because their call is missing.
    if (searched[start]?.role !== "tool") groups.push({ start, end, score: Math.max(...scores.slice(start, end)) });
    end = start;
  }
  let left = count;
  const taken = groups
    .toSorted((a, b) => b.score - a.score)
    .filter(({ start, end, score }) => {
      if (score <= 0 || end - start > left) return false;
      left -= end - start;
      return true;
    });
  taken.sort((a, b) => a.start - b.start);
  return { earlier: [...summary, ...taken.flatMap(({ start, end }) => searched.slice(start, end))], from };
}
