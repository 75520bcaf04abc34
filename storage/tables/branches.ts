import type { TenantStore } from "../store/store.ts";
import { readParents, type SeqRange } from "./events.ts";
import type { ThreadRow } from "./threads.ts";

// A branch is an event and its chain of parents up to the first event. A parent precedes its child, nearly always
// directly. A branch is therefore a few ranges of sequence numbers.

/** Rows per page; each has only two numbers. */
const pageRows = 1_000;

/**
 * Returns the branch that ends at `leafSeq`, oldest range first. Reads nothing for a thread that was never rewound,
 * because it has one branch.
 */
export async function branchRanges(
  store: TenantStore,
  { thread_key, meta }: Pick<ThreadRow, "thread_key" | "meta">,
  leafSeq: number,
): Promise<SeqRange[]> {
  if (leafSeq < 0) return [];
  if (meta.rewound_at === undefined) return [{ from: 0, to: leafSeq + 1 }];
  const newestFirst: SeqRange[] = [];
  let to = leafSeq + 1;
  for (let wanted = leafSeq; wanted >= 0; ) {
    const page = await readParents(store, thread_key, wanted + 1, pageRows);
    const before = wanted;
    for (const { seq, parent_seq } of page) {
      if (seq !== wanted) continue;
      wanted = parent_seq;
      if (parent_seq === seq - 1) continue;
      newestFirst.push({ from: seq, to });
      to = parent_seq + 1;
    }
    // The thread is being deleted, and its log with it.
    if (wanted === before) return [];
  }
  if (to > 0) newestFirst.push({ from: 0, to });
  return newestFirst.reverse();
}

/** True if the event with this sequence number is on the branch. */
export function isOnBranch(branch: readonly SeqRange[], seq: number): boolean {
  return branch.some(({ from, to }) => seq >= from && seq < to);
}

/** Returns the part of a branch before a sequence number. */
export function branchBefore(branch: readonly SeqRange[], end: number): SeqRange[] {
  return branch.flatMap(({ from, to }) => (from < end ? [{ from, to: Math.min(to, end) }] : []));
}
