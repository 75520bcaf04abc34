import { useMemo } from "preact/hooks";
import { html } from "../../core/html.js";
import { Icon } from "../../parts/icon.js";
import { layoutOf, pathOf, stepSize } from "./layout.js";

const stateIcons = {
  running: "refresh",
  waiting: "clock",
  succeeded: "check",
  failed: "cross",
  skipped: "right",
  cancelled: "stop",
};
const kindIcons = {
  agent: "agents",
  tool_call: "tool",
  template: "edit",
  condition: "question",
  map: "runs",
  approval: "person",
  wait: "clock",
  merge: "tree",
};

/**
 * The steps of a workflow with arrows from the steps that each needs. `steps` are {id, needs, kind, label, status}, without a status
 * outside a run. `choose` opens a step.
 */
export function Graph({ steps, chosen, choose }) {
  const shape = JSON.stringify(steps.map(({ id, needs }) => [id, needs]));
  const { width, height, places, arrows } = useMemo(() => layoutOf(steps), [shape]);
  const byId = new Map(steps.map((step) => [step.id, step]));
  return html`<div class="flow-box" tabindex="0" role="region" aria-label="Graph of the steps">
    <div class="flow" style=${{ width: `${width}px`, height: `${height}px` }}>
      <svg width=${width} height=${height} aria-hidden="true" focusable="false">
        <defs>
          <marker id="flow-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
            <path d="M0 0L8 4L0 8z" class="flow-head" />
          </marker>
        </defs>
        ${arrows.map(
          ({ from, to, points }) =>
            html`<path key=${`${from} ${to}`} d=${pathOf(points)} class=${`flow-arrow ${from === chosen || to === chosen ? "on" : ""}`} marker-end="url(#flow-head)" />`,
        )}
      </svg>
      <ol>
        ${places.map(({ id, x, y }) => {
          const { kind, label, status, needs } = byId.get(id);
          const place = {
            left: `${x}px`,
            top: `${y}px`,
            width: `${stepSize.width}px`,
            height: `${stepSize.height}px`,
          };
          return html`<li key=${id} style=${place}>
            <button type="button" class=${`flow-step ${status ?? ""}`} aria-pressed=${id === chosen} title=${label ?? id} onClick=${() => choose(id === chosen ? null : id)}>
              <b dir="auto">${label ?? id}</b>
              <small><${Icon} name=${stateIcons[status] ?? kindIcons[kind] ?? "more"} size=${13} /> ${kind.replace("_", " ")}${status ? html` · <span class="flow-state">${status}</span>` : null}</small>
              ${needs.length > 0 ? html`<span class="hidden">after ${needs.join(", ")}</span>` : null}
            </button>
          </li>`;
        })}
      </ol>
    </div>
  </div>`;
}
