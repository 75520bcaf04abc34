/** Max characters of a diff; a person does not read more before a decision. */
const charsMax = 8_000;
/** Unchanged lines around the change. */
const contextLines = 3;

/**
 * Returns a unified diff with one hunk, from the first different line to the last. Linear in the texts. `before` is null for a
 * new file. A diff that is too long ends with a note.
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

/** Splits a text into lines with their line ends. */
function linesOf(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** Returns the range of a hunk for its header; an empty range begins at the preceding line. */
function range(from: number, to: number): string {
  const count = to - from;
  return `${count === 0 ? from : from + 1},${count}`;
}
