import type { TenantStore } from "../store/store.ts";
import { readParents, type SeqRange } from "./events.ts";
import type { ThreadRow } from "./threads.ts";

// A branch of a log: an event and those before it, along the parents, up to the first. Parents are older than their children, and
// nearly always the event just before, so that a branch is a few ranges of sequence numbers.

/** Rows of a page, of which only two numbers are read. */
const pageRows = 1_000;

/** The branch that ends at `leafSeq`, oldest first. A thread that was never rewound has one branch, and nothing is read. */
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
    // The log of a thread that is being deleted.
    if (wanted === before) return [];
  }
  if (to > 0) newestFirst.push({ from: 0, to });
  return newestFirst.reverse();
}

/** Whether a branch has the event of a sequence number. */
export function isOnBranch(branch: readonly SeqRange[], seq: number): boolean {
  return branch.some(({ from, to }) => seq >= from && seq < to);
}

/** The part of a branch before a sequence number. */
export function branchBefore(branch: readonly SeqRange[], end: number): SeqRange[] {
  return branch.flatMap(({ from, to }) => (from < end ? [{ from, to: Math.min(to, end) }] : []));
}
