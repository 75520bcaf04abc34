import { useMemo } from "preact/hooks";
import { html } from "../core/html.js";

/** Lines of both texts above which the comparison takes the whole texts as changed. */
const linesMax = 3000;

/** Returns the lines of two texts as `[sign, line]`, where the sign is a blank, `-` or `+`. */
function diffLines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let tail = 0;
  while (tail < a.length - start && tail < b.length - start && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const middleA = a.slice(start, a.length - tail);
  const middleB = b.slice(start, b.length - tail);
  return [
    ...a.slice(0, start).map((line) => [" ", line]),
    ...changed(middleA, middleB),
    ...a.slice(a.length - tail).map((line) => [" ", line]),
  ];
}

/** Compares by the longest common subsequence. */
function changed(a, b) {
  if (a.length + b.length > linesMax) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([" ", a[i++]]);
      j++;
    } else if (j >= b.length || (i < a.length && common[(i + 1) * width + j] >= common[i * width + j + 1]))
      lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}

/** Unchanged lines that are shown around a change. */
const around = 3;

/** Two texts with their differences. Long runs of equal lines are left out. */
export function Diff({ before, after, label = "Changes" }) {
  const lines = useMemo(() => shortened(diffLines(before, after)), [before, after]);
  return html`<${Lines} lines=${lines} label=${label} />`;
}

/** A text that is a unified diff already. */
export function UnifiedDiff({ text, label = "Changes" }) {
  const lines = text
    .split("\n")
    .map((line) => [/^[-+]/.test(line) && !/^(?:---|\+\+\+)/.test(line) ? line[0] : " ", line]);
  return html`<${Lines} lines=${lines} label=${label} isUnified />`;
}

function Lines({ lines, label, isUnified = false }) {
  if (!lines.some(([sign]) => sign !== " ") && !isUnified) return html`<p class="hint">No differences.</p>`;
  return html`<pre class="diff" tabindex="0" role="region" aria-label=${label}>${lines.map(
    ([sign, line]) =>
      html`<div class=${sign === "+" ? "added" : sign === "-" ? "removed" : sign === "…" ? "left-out" : ""}>${isUnified ? line : `${sign} ${line}`}</div>`,
  )}</pre>`;
}

function shortened(lines) {
  const near = new Set();
  lines.forEach(([sign], at) => {
    if (sign !== " ") for (let each = at - around; each <= at + around; each++) near.add(each);
  });
  const shown = [];
  let hidden = 0;
  lines.forEach((line, at) => {
    if (near.has(at)) {
      if (hidden > 0) shown.push(["…", `${hidden} equal lines`]);
      hidden = 0;
      shown.push(line);
    } else hidden++;
  });
  if (hidden > 0 && shown.length > 0) shown.push(["…", `${hidden} equal lines`]);
  return shown;
}
