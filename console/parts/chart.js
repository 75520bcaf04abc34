import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../core/html.js";

const colours = 6;
const height = 180;
const barWidth = 21;
const gap = 9;

/**
 * Stacked bars. `columns` are the labels of the bars, `series` are `{name, values}` with a value for each column. A table under the
 * drawing has the same figures for readers that do not see it.
 */
export function BarChart({ columns, series, format, label }) {
  const [shown, setShown] = useState(null);
  const box = useRef(null);
  // The newest days are at the end.
  useLayoutEffect(() => {
    box.current.scrollLeft = box.current.scrollWidth;
  }, [columns.length]);
  const sums = columns.map((_, at) => series.reduce((sum, { values }) => sum + values[at], 0));
  const max = Math.max(...sums, 0) || 1;
  const labelEvery = Math.ceil(columns.length / 15);
  const width = columns.length * (barWidth + gap);
  return html`<figure class="chart">
    <ul class="legend" aria-hidden="true">
      ${series.map(({ name }, at) => html`<li key=${name}><i class=${`swatch series-${(at % colours) + 1}`}></i>${name}</li>`)}
    </ul>
    <div ref=${box} class="chart-box" tabindex="0" role="region" aria-label=${label}>
      <svg width=${width} height=${height + 24} role="img" aria-label=${`${label}, at most ${format(max)} a day`}>
        <line x1="0" x2=${width} y1=${height} y2=${height} class="chart-line" />
        ${columns.map((column, at) => {
          let y = height;
          const x = at * (barWidth + gap) + gap / 2;
          return html`<g key=${column} onPointerEnter=${() => setShown(at)} onPointerLeave=${() => setShown(null)}>
            <rect x=${x - gap / 2} y="0" width=${barWidth + gap} height=${height} class="chart-hit" />
            ${series.map(({ name, values }, of) => {
              const size = (values[at] / max) * (height - 12);
              y -= size;
              return size === 0
                ? null
                : html`<rect key=${name} x=${x} y=${y} width=${barWidth} height=${Math.max(size, 1)} class=${`series-${(of % colours) + 1}`} />`;
            })}
            ${at % labelEvery !== (columns.length - 1) % labelEvery ? null : html`<text x=${x + barWidth / 2} y=${height + 16} text-anchor="middle" class="chart-text">${column.slice(-5)}</text>`}
          </g>`;
        })}
      </svg>
    </div>
    <figcaption class="hint">${
      shown === null
        ? `Highest day: ${format(max)}`
        : `${columns[shown]}: ${format(sums[shown])} (${series
            .filter(({ values }) => values[shown] > 0)
            .map(({ name, values }) => `${name} ${format(values[shown])}`)
            .join(", ")})`
    }</figcaption>
    <table class="hidden">
      <caption>${label}</caption>
      <thead><tr><th scope="col">Day</th>${series.map(({ name }) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${columns.map((column, at) => html`<tr><th scope="row">${column}</th>${series.map(({ values }) => html`<td>${format(values[at])}</td>`)}</tr>`)}</tbody>
    </table>
  </figure>`;
}
