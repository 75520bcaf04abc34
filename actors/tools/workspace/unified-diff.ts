/** Characters of a diff; more than a person reads before saying yes. */
const charsMax = 8_000;
/** Lines around what changes. */
const contextLines = 3;

/**
 * A unified diff of one hunk: from the first line that differs to the last. Takes time in proportion to the texts, whatever they are.
 * `before` is null for a file that is new. One that is too long ends with a line that says so.
 */
export function unifiedDiff(path: string, before: string | null, after: string): string {
  const old = linesOf(before ?? "");
  const fresh = linesOf(after);
  const shorter = Math.min(old.length, fresh.length);
  let head = 0;
  while (head < shorter && old[head] === fresh[head]) head++;
  let tail = 0;
  while (tail < shorter - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++;

  const from = Math.max(0, head - contextLines);
  const kept = Math.min(tail, contextLines);
  const oldEnd = old.length - tail;
  const freshEnd = fresh.length - tail;
  const lines = [
    `--- ${before === null ? "/dev/null" : `a/${path}`}`,
    `+++ b/${path}`,
    `@@ -${range(from, oldEnd + kept)} +${range(from, freshEnd + kept)} @@`,
  ];
  let chars = lines.join("\n").length;
  const add = (mark: string, line: string): boolean => {
    chars += line.length + 2;
    if (chars > charsMax) return false;
    lines.push(mark + line.replace(/\n$/, ""));
    if (!line.endsWith("\n")) lines.push("\\ No newline at end of file");
    return true;
  };
  const whole =
    old.slice(from, head).every((line) => add(" ", line)) &&
    old.slice(head, oldEnd).every((line) => add("-", line)) &&
    fresh.slice(head, freshEnd).every((line) => add("+", line)) &&
    old.slice(oldEnd, oldEnd + kept).every((line) => add(" ", line));
  if (!whole) lines.push("[the rest of the diff is left out]");
  return `${lines.join("\n")}\n`;
}

/** Each with its line end. */
function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Lines of a hunk as its head names them; one that has none begins behind the line before it. */
function range(from: number, to: number): string {
  const count = to - from;
  return `${count === 0 ? from : from + 1},${count}`;
}
