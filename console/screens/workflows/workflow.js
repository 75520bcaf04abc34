import { useEffect, useState } from "preact/hooks";
import { ago, duration, moment } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { usePages } from "../../core/resource.js";
import { go, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Failed, Loading } from "../../parts/states.js";
import { Graph } from "./graph.js";
import { graphOf } from "./references.js";
import { Start } from "./start.js";
import { StepDefinition } from "./step.js";

/** A workflow: its graph, a way to start it, and its runs. */
export function Workflow({ workflow }) {
  const { workflow_id: id, description, definition } = workflow;
  const [chosen, setChosen] = useState(null);
  const [isStarting, setStarting] = useState(false);
  const needs = new Map(graphOf(definition).map((step) => [step.id, step.needs]));
  const steps = definition.steps.map((step) => ({ ...step, needs: needs.get(step.id), label: step.label ?? null }));
  const step = definition.steps.find((each) => each.id === chosen);
  return html`
    ${description ? html`<p dir="auto" class="break">${description}</p>` : null}
    ${may("POST /workflows/{workflow_id}/runs") ? html`<div class="buttons"><button type="button" class="primary" onClick=${() => setStarting(true)}><${Icon} name="runs" size=${16} /> Start a run</button></div>` : null}
    <section class="panel" aria-label="Steps"><${Graph} steps=${steps} chosen=${chosen} choose=${setChosen} /></section>
    ${step ? html`<${StepDefinition} key=${chosen} step=${step} />` : null}
    <${Runs} id=${id} />
    ${isStarting ? html`<${Start} id=${id} declared=${definition.inputs ?? {}} close=${() => setStarting(false)} onStarted=${({ run_id }) => go(to("workflows", [id, run_id]))} />` : null}
  `;
}

/** The runs of a workflow, also of one that was deleted. */
export function Runs({ id }) {
  const pages = usePages("GET /workflows/{workflow_id}/runs", { workflow_id: id, limit: 20 });
  useEffect(
    () =>
      onNews(
        ({ kind, workflow_id }) =>
          (kind === "reset" || (kind === "workflow_run" && workflow_id === id)) && pages.reload(),
      ),
    [id],
  );
  const { items, error, isWhole, isLoading } = pages;
  return html`<section class="panel stack" aria-label="Runs">
    <h2>Runs</h2>
    ${
      error && items.length === 0
        ? html`<${Failed} error=${error} retry=${pages.reload} />`
        : items.length === 0
          ? isWhole
            ? html`<p class="hint">No run yet.</p>`
            : html`<${Loading} label="Reading the runs" />`
          : html`<ul class="flow-runs">${items.map((run) => html`<${Row} key=${run.run_id} id=${id} run=${run} />`)}</ul>`
    }
    ${items.length > 0 && !isWhole ? html`<div class="buttons"><button type="button" disabled=${isLoading} onClick=${error ? pages.retry : pages.more}>${isLoading ? "Reading more…" : "Older runs"}</button></div>` : null}
  </section>`;
}

function Row({ id, run }) {
  const { run_id, status, steps, error, cause, started_by, created_at, finished_at, revision } = run;
  const done = steps.filter((step) => ["succeeded", "skipped"].includes(step.status)).length;
  return html`<li class="row">
    <a class="row-main" href=${to("workflows", [id, run_id])}>
      <b>${done} of ${steps.length} steps</b>
      <small>revision ${revision}, ${cause} of ${started_by} ${error ? html`<span class="problem break">${error}</span>` : null}</small>
    </a>
    <span class=${`chip ${status}`}>${status}</span>
    <span class="row-time" title=${moment(created_at)}>${ago(created_at)} · ${duration((finished_at ?? Date.now()) - created_at)}</span>
  </li>`;
}
