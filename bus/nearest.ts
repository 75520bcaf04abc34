// What somebody may have meant who has named what is not there.

/** Longer names are no slips of a finger, and comparing costs their product. */
const charactersMax = 64;
/** Names that are compared: more than anybody registers. */
const knownMax = 2_000;
/** What is shorter may begin anything. */
const beginningMin = 5;
/** More names than these are no help to read. */
const listedMax = 40;

/**
 * The one of `known` that `name` is most likely a slip of: in another spelling of case, dash and underscore, or by as many wrong,
 * missing, added or swapped neighbouring letters as a third of its length, two at most; or else the only one that it is the beginning of.
 * Null when there is none.
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

/** What to say behind a name that is not there: which is near, or else which there are; empty when those are none or too many. */
export function meant(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  if (near !== null) return ` (did you mean ${near}?)`;
  return known.length === 0 || known.length > listedMax ? "" : ` (there are ${known.join(", ")})`;
}

/** The same as sentences behind one: the nearest name, and all that there are when they are few. */
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
 * The optimal string alignment distance of two texts (Damerau 1964), or `enough` when it is that or more. Only the places whose distance
 * can be less are filled in (Ukkonen 1985), so the work is the length of a text and not the product of both.
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
