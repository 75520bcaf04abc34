/**
 * Whether the whole of `text` fits `pattern`: `*` is any number of characters, `?` is one, all others are themselves; case
 * counts. Only the last `*` is ever tried again, so the work is at most the product of the two lengths and a sum of them for
 * patterns that people write. `counter` is for tests.
 */
export function matchGlob(pattern: string, text: string, counter?: { steps: number }): boolean {
  let inPattern = 0;
  let inText = 0;
  let star = -1;
  let starText = 0;
  while (inText < text.length) {
    if (counter) counter.steps++;
    const wanted = pattern[inPattern];
    if (wanted === "*") {
      star = inPattern++;
      starText = inText;
    } else if (wanted === "?" || wanted === text[inText]) {
      inPattern++;
      inText++;
    } else if (star >= 0) {
      inPattern = star + 1;
      inText = ++starText;
    } else return false;
  }
  while (pattern[inPattern] === "*") inPattern++;
  return inPattern === pattern.length;
}

/** Whether any of the patterns fits. */
export function matchAnyGlob(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => matchGlob(pattern, text));
}
