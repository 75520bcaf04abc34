import { ago, count, duration } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty } from "../../parts/states.js";

/** Runs of evaluations, the newest first. */
export function Runs({ input }) {
  const pages = usePages("GET /eval/runs", { ...input, limit: 50 });
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ id }) => id}
    row=${(run) => html`<${Row} run=${run} />`}
    label="Evaluations"
    estimate=${60}
    empty=${html`<${Empty} icon="quality" title="No run yet">Open a dataset and evaluate an agent on it.<//>`}
  />`;
}

function Row({ run }) {
  const { id, dataset_name, candidate_manifest, status, pass_rate, pass_count, total, started_at, wall_ms } = run;
  return html`<div class="row">
    <a class="row-main" href=${to("quality", ["run", id])}><b class="break">${candidate_manifest}</b><small class="break">on ${dataset_name}</small></a>
    <${Standing} status=${status} rate=${pass_rate} />
    <span class="row-time">${count(pass_count)} of ${count(total)} pass · ${ago(started_at)} · ${duration(wall_ms)}</span>
  </div>`;
}

/** The status of a run, and the share of the items that pass. */
export function Standing({ status, rate }) {
  const kind = status === "failed" ? "bad" : status === "in_progress" ? "warn" : "good";
  const word = { in_progress: "running", completed: `${Math.round(rate * 100)} %`, failed: "failed" }[status];
  return html`<span class=${`chip ${kind}`}>${word}</span>`;
}
