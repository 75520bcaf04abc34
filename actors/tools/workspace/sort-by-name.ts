/** Entries sorted without a yield. */
const runMax = 4_096;

interface Named {
  readonly name: string;
}

/**
 * Sorts entries by name, in runs that are merged in pairs, with a yield after each: sorting 50,000 at once would block the event
 * loop too long.
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

/** Sorts case-insensitively; among names that differ only in case, upper case comes first. */
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
