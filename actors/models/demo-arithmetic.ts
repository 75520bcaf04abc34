/** Longer ones are not what people type. */
const expressionMax = 200;

/** What people write for the operators. */
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

/** The arithmetic that a text asks for, as the calculator takes it; null when there is none. Linear in the text. */
export function arithmeticIn(text: string): string | null {
  let plain = text;
  for (const [spelling, operator] of spellings) plain = plain.replace(spelling, operator);
  for (const run of plain.split(/[^\d\s.+\-*/%^()]+/)) {
    const expression = trimmed(balanced(run));
    if (expression.length <= expressionMax && isMeant(expression, plain)) return expression;
  }
  return null;
}

/** Without the parentheses that have no partner. */
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

/** Without what the sentence around it has left: spaces, full stops, dashes, the bullet of a list. */
function trimmed(run: string): string {
  let from = 0;
  let to = run.length;
  while (from < to && /[\s*/%^+.]/.test(run[from] as string)) from++;
  while (to > from && /[\s*/%^+\-.]/.test(run[to - 1] as string)) to--;
  return run.slice(from, to).replace(/\s+/g, " ");
}

/** Whether it computes something, and is no date, no range and no number of a telephone. */
function isMeant(expression: string, text: string): boolean {
  if (!/[\d)] ?[-+*/%^]{1,2} ?[-+(]*[\d.]/.test(expression)) return false;
  // The digits of one number may not be apart.
  if (/[\d.)] [\d.(]/.test(expression)) return false;
  if (/[+*%^(]/.test(expression) || / [-/] /.test(expression)) return true;
  return text.trim() === expression || /\b(?:what|calculate|compute|evaluate|solve|how much)\b|=/i.test(text);
}
