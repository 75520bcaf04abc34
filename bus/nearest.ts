// Suggests known names for an unknown one.

/**
 * Max length of a compared name: longer ones are no typing errors, and the comparison costs the product of the lengths.
 */
const charactersMax = 64;
/** Max compared names, more than any deployment registers. */
const knownMax = 2_000;
/** Min length of a prefix; a shorter one matches by accident. */
const beginningMin = 5;
/** Max names in a list; more do not help a reader. */
const listedMax = 40;

/**
 * Returns the known name that the user most likely meant. It may differ in case, dashes and underscores.
 * It may also have wrong, missing, added or swapped letters, up to a third of its length and at most two. Otherwise
 * returns the only known name that starts with it, or null.
 */
export function nearest(name: string, known: Iterable<string>): string | null {
  if (name.length > charactersMax) return null;
  const wanted = plain(name);
  let best: string | null = null;
  let least = Math.min(2, Math.floor(wanted.length / 3)) + 1;
  let compared = 0;
  const longer: string[] = [];
  for (const candidate of known) {
    if (++compared > knownMax) break;
    const other = plain(candidate);
    if (wanted.length >= beginningMin && other.length <= charactersMax && other.startsWith(wanted))
      longer.push(candidate);
    const distance = slips(wanted, other, least);
    if (distance >= least) continue;
    best = candidate;
    least = distance;
  }
  return best ?? (longer.length === 1 ? (longer[0] as string) : null);
}

/**
 * Returns a suffix for a message about an unknown name: the nearest name, or else the known names. Empty if there are
 * none or too many.
 */
export function meant(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  if (near !== null) return ` (did you mean ${near}?)`;
  return known.length === 0 || known.length > listedMax ? "" : ` (there are ${known.join(", ")})`;
}

/** Returns the same as separate sentences: the nearest name, and all known ones if they are few. */
export function offered(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const all =
    known.length === 0 || known.length > listedMax
      ? ""
      : ` There ${known.length === 1 ? "is" : "are"} ${known.join(", ")}.`;
  return (near === null ? "" : ` Did you mean ${near}?`) + all;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll("-", "_");
}

/**
 * Returns the optimal string alignment distance of two texts (Damerau 1964), capped at `enough`. Only cells that can be
 * below the cap are computed (Ukkonen 1985), so the work is linear in the length.
 */
function slips(a: string, b: string, enough: number): number {
  if (Math.abs(a.length - b.length) >= enough) return enough;
  const width = b.length + 1;
  let [before, last, row] = [new Uint8Array(width), new Uint8Array(width), new Uint8Array(width)];
  for (let j = 0; j < width; j++) last[j] = Math.min(j, enough);
  for (let i = 1; i <= a.length; i++) {
    const from = Math.max(1, i - enough);
    const to = Math.min(b.length, i + enough);
    row.fill(enough);
    row[from - 1] = Math.min(i - from + 1, enough);
    let least = row[from - 1] as number;
    for (let j = from; j <= to; j++) {
      const isSame = a[i - 1] === b[j - 1];
      let distance = Math.min(
        (last[j] as number) + 1,
        (row[j - 1] as number) + 1,
        (last[j - 1] as number) + (isSame ? 0 : 1),
      );
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwapped) distance = Math.min(distance, (before[j - 2] as number) + 1);
      row[j] = distance;
      least = Math.min(least, distance);
    }
    if (least >= enough) return enough;
    [before, last, row] = [last, row, before];
  }
  return Math.min(last[b.length] as number, enough);
}
