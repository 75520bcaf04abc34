// A unified diff of two texts, by the algorithm of Myers ("An O(ND) difference algorithm and its variations", 1986).

const contextLines = 3;
/** Changed lines beyond which the texts count as wholly different: the work grows with their square. */
const changesMax = 1_000;

interface Step {
  readonly mark: " " | "-" | "+";
  readonly line: string;
}

/** Returns the hunks of a unified diff, without the lines that name the files. */
export function lineDiff(before: string, after: string): string {
  const steps = stepsOf(linesOf(before), linesOf(after));
  const out: string[] = [];
  let old = 1;
  let now = 1;
  for (let at = 0; at < steps.length; ) {
    const next = steps.findIndex(({ mark }, index) => index >= at && mark !== " ");
    if (next < 0) break;
    const from = Math.max(at, next - contextLines);
    old += from - at;
    now += from - at;
    const to = endOf(steps, next);
    const hunk = steps.slice(from, to);
    const olds = hunk.filter(({ mark }) => mark !== "+").length;
    const news = hunk.filter(({ mark }) => mark !== "-").length;
    out.push(`@@ -${rangeOf(old, olds)} +${rangeOf(now, news)} @@`, ...hunk.map(({ mark, line }) => mark + line));
    old += olds;
    now += news;
    at = to;
  }
  return out.length === 0 ? "" : `${out.join("\n")}\n`;
}

/** Returns the end of a hunk that begins with a change: changes whose context touches share one. */
function endOf(steps: readonly Step[], first: number): number {
  let last = first;
  for (let at = first; at < steps.length && at <= last + 2 * contextLines; at++) if (steps[at]?.mark !== " ") last = at;
  return Math.min(steps.length, last + contextLines + 1);
}

function rangeOf(start: number, count: number): string {
  return `${count === 0 ? start - 1 : start},${count}`;
}

function linesOf(text: string): readonly string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function stepsOf(before: readonly string[], after: readonly string[]): readonly Step[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  const shorter = Math.min(before.length, after.length) - head;
  while (tail < shorter && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const same = (line: string): Step => ({ mark: " ", line });
  return [
    ...before.slice(0, head).map(same),
    ...middleOf(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map(same),
  ];
}

function middleOf(before: readonly string[], after: readonly string[]): readonly Step[] {
  const [n, m] = [before.length, after.length];
  const most = Math.min(n + m, changesMax);
  const offset = most + 1;
  const reach = new Int32Array(2 * offset + 1);
  const traces: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    traces.push(reach.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const isDown = k === -d || (k !== d && at(reach, offset + k - 1) < at(reach, offset + k + 1));
      let x = isDown ? at(reach, offset + k + 1) : at(reach, offset + k - 1) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x++;
      reach[offset + k] = x;
      if (x >= n && x - k >= m) return pathBack(traces, before, after);
    }
  }
  const removed = before.map((line): Step => ({ mark: "-", line }));
  return [...removed, ...after.map((line): Step => ({ mark: "+", line }))];
}

/** Returns the steps of the shortest path, from its end to its beginning. */
function pathBack(traces: readonly Int32Array[], before: readonly string[], after: readonly string[]): readonly Step[] {
  const steps: Step[] = [];
  let [x, y] = [before.length, after.length];
  for (let d = traces.length - 1; d >= 0; d--) {
    const trace = traces[d] as Int32Array;
    const center = d + 1;
    const k = x - y;
    const isDown = k === -d || (k !== d && at(trace, center + k - 1) < at(trace, center + k + 1));
    const from = d === 0 ? 0 : k + (isDown ? 1 : -1);
    const fromX = d === 0 ? 0 : at(trace, center + from);
    const fromY = d === 0 ? 0 : fromX - from;
    while (x > fromX && y > fromY) {
      steps.push({ mark: " ", line: before[--x] as string });
      y--;
    }
    if (d === 0) break;
    if (isDown) steps.push({ mark: "+", line: after[--y] as string });
    else steps.push({ mark: "-", line: before[--x] as string });
  }
  return steps.reverse();
}

function at(array: Int32Array, index: number): number {
  return array[index] as number;
}
