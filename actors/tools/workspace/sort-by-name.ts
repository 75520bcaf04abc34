/** Entries that are sorted at once. */
const runMax = 4_096;

interface Named {
  readonly name: string;
}

/**
 * The entries by their names. They are sorted in runs, which are merged by twos, with a breath after each: 50,000 at once would
 * take longer than others may wait.
 */
export async function sortByName<E extends Named>(
  entries: readonly E[],
  breathe: () => Promise<void> | undefined,
): Promise<E[]> {
  let runs: E[][] = [];
  for (let at = 0; at < entries.length; at += runMax) {
    runs.push(entries.slice(at, at + runMax).sort((a, b) => (a.name < b.name ? -1 : 1)));
    await breathe();
  }
  while (runs.length > 1) {
    const merged: E[][] = [];
    for (let at = 0; at < runs.length; at += 2) {
      merged.push(merge(runs[at] ?? [], runs[at + 1] ?? []));
      await breathe();
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

/** The same whatever the case of the names; of those that differ in nothing else the upper case comes first. */
export async function sortByFoldedName<E extends Named>(
  entries: readonly E[],
  breathe: () => Promise<void> | undefined,
): Promise<E[]> {
  const folded = entries.map((entry) => ({ name: `${entry.name.toLowerCase()}\u0000${entry.name}`, entry }));
  return (await sortByName(folded, breathe)).map(({ entry }) => entry);
}

function merge<E extends Named>(left: readonly E[], right: readonly E[]): E[] {
  const merged: E[] = [];
  let at = 0;
  for (const entry of left) {
    for (let next = right[at]; next !== undefined && next.name < entry.name; next = right[++at]) merged.push(next);
    merged.push(entry);
  }
  for (; at < right.length; at++) merged.push(right[at] as E);
  return merged;
}
