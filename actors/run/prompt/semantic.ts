import { isSummary } from "../../log/compaction.ts";
import type { ContextMessage } from "../../log/message.ts";
import { groupStart } from "./working-set.ts";

/** Messages that are shown before the running turn whatever they are about. */
const recentMessages = 4;

/** What `semantic:N` shows before the running turn, chosen once in a turn, so that its calls begin alike. */
export interface Chosen {
  readonly earlier: readonly ContextMessage[];
  /** From here on the branch is shown as it is. */
  readonly from: number;
}

/** A score for each message: the more like the query, the higher, and not above 0 for what has nothing in common with it. */
export type Compare = (messages: readonly ContextMessage[], query: string) => Promise<number[]>;

/**
 * The `count` messages before the newest ones that are most like what the running turn asks, in their order. Groups are chosen whole: a
 * call is never parted from its results.
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
    // What a page has begun in the middle of a group is no group.
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
