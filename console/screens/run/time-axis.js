import { duration } from "../../core/format.js";
import { html } from "../../core/html.js";
import { Icon } from "../../parts/icon.js";
import { VirtualList } from "../../parts/virtual.js";
import { rowsOf } from "./timeline.js";

const drawings = { model: "brain", tool: "tool", wait: "clock", mark: "tag" };
/** Rows above which the list scrolls by itself. */
const rowsShown = 14;

/** The steps of a run, each as a bar from its start to its end. A call of a model opens its request. */
export function TimeAxis({ items, end, choose, chosen }) {
  const rows = rowsOf(items, end);
  if (rows.length === 0) return html`<p class="hint">No step yet.</p>`;
  const start = rows[0].from;
  const stop = Math.max(...rows.map(({ to }) => to), start + 1);
  const share = (at) => ((at - start) / (stop - start)) * 100;
  const row = ({
    kind,
    title,
    said,
    from,
    to,
    n,
    tools = [],
    controls = [],
    passed = [],
    taint = [],
    isBad,
    isOpen,
  }) => {
    const inside = html`
      <span class="axis-name"><${Icon} name=${drawings[kind]} size=${15} /> <b>${title}</b> <small>${said}${tools.length > 0 ? ` → ${tools.join(", ")}` : ""}</small>
        ${controls.map(({ control, verdict, rule }) => html`<span class=${`chip ${verdict === "replace" ? "warn" : "bad"}`}>${control} ${verdict}${rule ? `: ${rule}` : ""}</span>`)}
        ${passed.length > 0 ? html`<span class="chip good" title=${`Passed by ${passed.join(", ")}`}>${passed.length < 3 ? `passed by ${passed.join(", ")}` : `${passed.length} controls passed`}</span>` : null}
        ${taint.map((source) => html`<span class="chip" title="Text from outside that the agent had read">from ${source}</span>`)}</span>
      <span class="axis-track" aria-hidden="true"
        ><span class=${`axis-bar ${kind} ${isBad ? "bad" : ""}`} style=${{ left: `${share(from)}%`, width: `${Math.max(share(to) - share(from), 0.4)}%` }}></span
      ></span>
      <span class="axis-time">${kind === "mark" ? `+${duration(from - start)}` : `${duration(to - from)}${isOpen ? "…" : ""}`}</span>
    `;
    return kind === "model" && choose
      ? html`<button type="button" class="axis-row" aria-pressed=${n === chosen} onClick=${() => choose(n === chosen ? null : n)}>${inside}</button>`
      : html`<div class="axis-row">${inside}</div>`;
  };
  return html`<div class=${rows.length > rowsShown ? "axis tall" : "axis"}>
    <div class="axis-scale" aria-hidden="true"><span>0</span><span>${duration((stop - start) / 2)}</span><span>${duration(stop - start)}</span></div>
    <${VirtualList} items=${rows} keyOf=${({ key }) => key} row=${row} label="Steps" estimate=${34} />
  </div>`;
}
