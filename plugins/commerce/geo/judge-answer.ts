// Judges an answer of a model about a market: whether the brand is named, and where it stands among the named ones. Texts are compared
// first; a model only names the competitors.

/** The judgement of an answer about a brand. */
export interface JudgedAnswer {
  readonly brand_mentioned: boolean;
  /** Position among the named brands, from 1; 0 if the brand is absent. */
  readonly rank: number;
}

/** Returns whether and where an answer names a brand. Competitors that the answer does not name do not count. */
export function judgeAnswer(answer: string, brand: string, competitors: readonly string[]): JudgedAnswer {
  const at = placeOf(answer, brand);
  if (at === null) return { brand_mentioned: false, rank: 0 };
  const before = competitors.filter((name) => {
    const place = placeOf(answer, name);
    return place !== null && place < at;
  });
  return { brand_mentioned: true, rank: before.length + 1 };
}

/** Returns the names that an answer has, each once, without the brand itself. */
export function namedIn(answer: string, names: readonly unknown[], brand: string, max: number): string[] {
  const found = new Map<string, string>();
  for (const name of names) {
    if (typeof name !== "string") continue;
    const plain = name.trim().slice(0, 200);
    const key = folded(plain);
    if (key === "" || key === folded(brand) || found.has(key) || placeOf(answer, plain) === null) continue;
    found.set(key, plain);
    if (found.size === max) break;
  }
  return [...found.values()];
}

/** Returns the position of a name as a whole word, without regard to case and accents; null if it is absent. */
function placeOf(text: string, name: string): number | null {
  const [hay, needle] = [folded(text), folded(name)];
  if (needle === "") return null;
  for (let from = 0; ; ) {
    const at = hay.indexOf(needle, from);
    if (at < 0) return null;
    if (!isWordAt(hay, at - 1) && !isWordAt(hay, at + needle.length)) return at;
    from = at + 1;
  }
}

function isWordAt(text: string, at: number): boolean {
  return /[\p{L}\p{N}]/u.test(text.charAt(at));
}

function folded(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().trim();
}
