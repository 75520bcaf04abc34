/** Max characters of an expression. */
const expressionMax = 200;

/** Common spellings of the operators. */
const spellings: readonly (readonly [RegExp, string])[] = [
  [/×/g, "*"],
  [/÷/g, "/"],
  [/[−–]/g, "-"],
  [/(\d)\s?x\s?(?=\d)/gi, "$1*"],
  [/\bplus\b/gi, "+"],
  [/\bminus\b/gi, "-"],
  [/\b(?:times|multiplied by)\b/gi, "*"],
  [/\bdivided by\b/gi, "/"],
];

/** Returns the expression in a text, in the calculator's syntax; null if there is none. Linear in the text. */
export function arithmeticIn(text: string): string | null {
  let plain = text;
  for (const [spelling, operator] of spellings) plain = plain.replace(spelling, operator);
  for (const run of plain.split(/[^\d\s.+\-*/%^()]+/)) {
    const expression = trimmed(balanced(run));
    if (expression.length <= expressionMax && isMeant(expression, plain)) return expression;
  }
  return null;
}

/** Removes unmatched parentheses. */
function balanced(run: string): string {
  const lonely = new Set<number>();
  const open: number[] = [];
  for (const [at, character] of [...run].entries()) {
    if (character === "(") open.push(at);
    else if (character === ")" && open.pop() === undefined) lonely.add(at);
  }
  for (const at of open) lonely.add(at);
  return [...run].filter((_, at) => !lonely.has(at)).join("");
}

/** Removes surrounding spaces, full stops, dashes and list bullets. */
function trimmed(run: string): string {
  let from = 0;
  let to = run.length;
  while (from < to && /[\s*/%^+.]/.test(run[from] as string)) from++;
  while (to > from && /[\s*/%^+\-.]/.test(run[to - 1] as string)) to--;
  return run.slice(from, to).replace(/\s+/g, " ");
}

/** True if the expression computes something and is not a date, range or phone number. */
function isMeant(expression: string, text: string): boolean {
  if (!/[\d)] ?[-+*/%^]{1,2} ?[-+(]*[\d.]/.test(expression)) return false;
  // Digits of one number must not be separated.
  if (/[\d.)] [\d.(]/.test(expression)) return false;
  if (/[+*%^(]/.test(expression) || / [-/] /.test(expression)) return true;
  return text.trim() === expression || /\b(?:what|calculate|compute|evaluate|solve|how much)\b|=/i.test(text);
}
