/**
 * True if all of `text` matches `pattern`: `*` is any number of characters, `?` is one, all others are literal, with
 * case. Only the last `*` is retried, so the work is at most the product of both lengths, and for usual patterns their
 * sum. `counter` is for tests.
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

/** True if any pattern matches. */
export function matchAnyGlob(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => matchGlob(pattern, text));
}
