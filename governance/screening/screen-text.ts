import { type Family, heuristics } from "./heuristics.ts";
import { type Views, viewsOf } from "./views.ts";

/** What screening found in a text. Findings never repeat the text. */
export interface Screened {
  readonly isFlagged: boolean;
  /** `family.id` of each finding, heaviest first, once. */
  readonly findings: readonly string[];
}

/** Max findings that are named. */
const findingsMax = 8;
/** Invisible tags that spell something. */
const tagCharsMin = 4;
/** Words that invisible characters break. */
const brokenWordsMin = 3;
const overridesMin = 2;
const mixedWordsMin = 3;

const clean: Screened = { isFlagged: false, findings: [] };

/** Searches a text for instructions to a model. Blocks for about a millisecond per 16 KiB; see `screen`. */
export function screenText(text: string): Screened {
  if (text.length < 8) return clean;
  const read = viewsOf(text);
  const found = new Map<string, { readonly family: Family; readonly weight: number }>(hiding(read));
  for (const { id, family, weight, pattern, views } of heuristics)
    if (read.views.some((view) => (views === undefined || views.includes(view.name)) && pattern.test(view.text)))
      found.set(`${family}.${id}`, { family, weight });
  if (found.size === 0) return clean;
  const byFamily = new Map<Family, number>();
  for (const { family, weight } of found.values()) byFamily.set(family, Math.max(weight, byFamily.get(family) ?? 0));
  const total = [...byFamily.values()].reduce((sum, weight) => sum + weight, 0);
  const findings = [...found].sort(([, a], [, b]) => b.weight - a.weight).slice(0, findingsMax);
  return { isFlagged: total >= 1, findings: findings.map(([name]) => name) };
}

/** Findings about the way a text is written. */
function* hiding({
  tagChars,
  brokenWords,
  overrides,
  mixedWords,
}: Views): Iterable<[string, { readonly family: Family; readonly weight: number }]> {
  if (tagChars >= tagCharsMin) yield ["hidden.tags", { family: "hidden", weight: 1 }];
  if (brokenWords >= brokenWordsMin) yield ["hidden.broken_words", { family: "hidden", weight: 0.7 }];
  if (overrides >= overridesMin) yield ["hidden.direction", { family: "hidden", weight: 0.7 }];
  if (mixedWords >= mixedWordsMin) yield ["hidden.mixed_scripts", { family: "hidden", weight: 0.7 }];
}
