import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, duration, moment, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { usePages } from "../../core/resource.js";
import { place, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { Choice, Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty } from "../../parts/states.js";
import { attempt, toast } from "../../parts/toast.js";

const tabs = [
  ["", "All"],
  ["running", "Running"],
  ["waiting", "Waiting"],
  ["completed", "Completed"],
  ["failed", "Failed"],
  ["dead", "Dead letters"],
];
const over = new Set(["completed", "failed", "expired", "dead"]);

/** The durable runs: what runs, what waits, what failed and what can be tried again. */
export function Screen() {
  const [status, setStatus] = useState(place.value.query.get("status") ?? "");
  const [isRequeuing, setRequeuing] = useState(false);
  const pages = usePages("GET /runs", { status, limit: 50 });
  useEffect(() => onNews(({ kind }) => (kind === "run_status" || kind === "reset") && pages.reload()), []);
  const requeueAll = async () => {
    const answer = await attempt(() => call("POST /runs/requeue", {}));
    if (answer)
      toast(
        `Requeued ${answer.requeued.length}, skipped ${answer.skipped.length}${answer.more ? "; there are more" : ""}`,
      );
    pages.reload();
  };
  return html`<${Page}
    title="Runs"
    about="Durable runs continue without a client, and after a restart"
    tools=${html`
      ${
        status === "dead" && pages.items.length > 0 && may("POST /runs/requeue")
          ? html`<button type="button" onClick=${() => setRequeuing(true)}><${Icon} name="refresh" size=${16} /> Requeue all</button>`
          : null
      }
      <button type="button" class="ghost icon-button" aria-label="Refresh" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /></button>
    `}
    filters=${html`<${Choice} label="Status" options=${tabs} value=${status} choose=${setStatus} />`}
  >
    <${PagesList}
      pages=${pages}
      keyOf=${({ run_id }) => run_id}
      row=${(run) => html`<${Row} run=${run} onChanged=${pages.reload} />`}
      label="Runs"
      estimate=${64}
      empty=${html`<${Empty} icon="runs" title=${status === "" ? "No durable run yet" : `No run is ${status}`}>
        A manifest with <code>execution.mode: durable</code> starts one with each turn.
      <//>`}
    />
    ${
      isRequeuing
        ? html`<${Confirm} title="Requeue all dead runs?" text="Each continues after the last step of its log, as a new run. At most 1,000 are requeued at once." action="Requeue" close=${() => setRequeuing(false)} confirm=${requeueAll} />`
        : null
    }
  <//>`;
}

function Row({ run, onChanged }) {
  const { run_id, status, manifest_id, thread_id, accepted_at, begun_at, ended_at, attempts, error, requeued_as } = run;
  const act = async (route, done) => {
    await attempt(() => call(route, { run_id }), done);
    onChanged();
  };
  const took = begun_at === null ? null : (ended_at ?? Date.now()) - begun_at;
  return html`<div class="row">
    <a class="row-main" href=${to("run", [run_id])}>
      <b>${manifest_id}</b>
      <small><code>${thread_id ? suffixOf(thread_id) : run_id.slice(0, 12)}</code> ${error ? html`<span class="problem break">${error}</span>` : null}</small>
    </a>
    <span class=${`chip ${status}`}>${status}</span>
    ${attempts > 0 ? html`<span class="chip warn">${attempts} ${attempts === 1 ? "failure" : "failures"}</span>` : null}
    <span class="row-time" title=${`Accepted ${moment(accepted_at)}`}>${ago(accepted_at)}${took === null ? "" : ` · ${duration(took)}`}</span>
    <span class="buttons">
      ${!over.has(status) && may("POST /runs/{run_id}/cancel") ? html`<button type="button" class="small danger-soft" onClick=${() => act("POST /runs/{run_id}/cancel", "Cancelled")}>Cancel</button>` : null}
      ${!over.has(status) && attempts > 0 && may("POST /runs/{run_id}/retry") ? html`<button type="button" class="small" onClick=${() => act("POST /runs/{run_id}/retry", "Retrying now")}>Retry now</button>` : null}
      ${
        status === "dead" && requeued_as === null && may("POST /runs/{run_id}/requeue")
          ? html`<button type="button" class="small" onClick=${() => act("POST /runs/{run_id}/requeue", "Requeued")}>Requeue</button>`
          : null
      }
      ${requeued_as ? html`<a class="button small ghost" href=${to("run", [requeued_as])}>Requeued</a>` : null}
    </span>
  </div>`;
}
