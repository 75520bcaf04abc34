import { useEffect } from "preact/hooks";
import { ago } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { usePages, useResource } from "../../core/resource.js";
import { go, place, to } from "../../core/router.js";
import { Icon } from "../../parts/icon.js";
import { Page } from "../../parts/page.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { WorkflowRun } from "./run.js";
import { Runs, Workflow } from "./workflow.js";

/** The workflows: their graphs, and their runs as they go on. */
export function Screen() {
  const [id, runId] = place.value.parts;
  const pages = usePages("GET /workflows", { limit: 50 });
  useEffect(() => onNews(({ kind }) => kind === "reset" && pages.reload()), []);
  const { items, error, isWhole, isLoading } = pages;
  useEffect(() => {
    if (id === undefined && items.length > 0 && matchMedia("(min-width: 60rem)").matches)
      go(to("workflows", [items[0].workflow_id]), { replace: true });
  }, [id, items.length]);
  return html`<${Page}
    title="Workflows"
    about="Saved graphs of steps, which run without a client and after a restart"
    tools=${html`<button type="button" class="ghost icon-button" aria-label="Refresh" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /></button>`}
  >
    ${
      error && items.length === 0
        ? html`<${Failed} error=${error} retry=${pages.reload} />`
        : items.length === 0 && !isWhole
          ? html`<${Loading} label="Reading the workflows" />`
          : items.length === 0 && id === undefined
            ? html`<${Empty} icon="workflows" title="No workflow yet"><code>PUT /workflows/NAME</code> saves one.<//>`
            : html`<div class=${`split ${id !== undefined ? "split-open" : ""}`}>
              <nav class="split-list" aria-label="Workflows">
                <ul>${items.map((item) => html`<${Item} key=${item.workflow_id} item=${item} isCurrent=${item.workflow_id === id} />`)}</ul>
                ${isWhole ? null : html`<button type="button" class="wide" disabled=${isLoading} onClick=${error ? pages.retry : pages.more}>${isLoading ? "Reading more…" : "More"}</button>`}
              </nav>
              <div class="split-body" tabindex="0" role="region" aria-label="Workflow">
                ${id === undefined ? html`<${Empty} icon="workflows" title="Choose a workflow" />` : html`<${Body} key=${id} id=${id} runId=${runId} />`}
              </div>
            </div>`
    }
  <//>`;
}

function Item({ item: { workflow_id, name, revision, updated_at }, isCurrent }) {
  return html`<li>
    <a href=${to("workflows", [workflow_id])} aria-current=${isCurrent ? "page" : undefined}>
      <b class="break" dir="auto">${name}</b>
      <small>${workflow_id}, revision ${revision}, ${ago(updated_at)}</small>
    </a>
  </li>`;
}

function Body({ id, runId }) {
  const { data, error, reload } = useResource("GET /workflows/{workflow_id}", { workflow_id: id });
  const isGone = error?.status === 404;
  if (error && !isGone) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null && !isGone) return html`<${Loading} label="Reading the workflow" />`;
  return html`<div class="stack">
    <div class="buttons">
      <a class="button ghost icon-button split-back" href=${to("workflows")} aria-label="All workflows"><${Icon} name="left" size=${16} /></a>
      <h2 class="break" dir="auto">${data?.name ?? id}</h2>
      <span class="chip">${isGone ? "deleted" : `revision ${data.revision}`}</span>
    </div>
    ${
      runId !== undefined
        ? html`<${WorkflowRun} key=${runId} id=${id} runId=${runId} workflow=${data} />`
        : isGone
          ? html`<${Runs} id=${id} />`
          : html`<${Workflow} workflow=${data} />`
    }
  </div>`;
}
