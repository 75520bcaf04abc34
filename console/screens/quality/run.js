import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, count, duration, line, money, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Facts, Page } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { Standing } from "./runs.js";

const cancelRoute = "POST /eval/runs/{run_id}/cancel";
const compareRoute = "POST /eval/runs/compare";
/** Pause between two looks at a run in progress, and scores that are shown. */
const lookMs = 2_000;
const shownMax = 200;

/** One run: the score of each item, and a comparison with another run. */
export function Run({ id }) {
  const { data, error, reload } = useResource("GET /eval/runs/{run_id}", { run_id: id });
  const isOpen = data?.status === "in_progress";
  useEffect(() => {
    if (!isOpen) return;
    const timer = setTimeout(() => !document.hidden && reload(), lookMs);
    return () => clearTimeout(timer);
  }, [data]);
  const cancel = async () => {
    await attempt(() => call(cancelRoute, { run_id: id }), "Cancelled");
    reload();
  };
  const back = html`<a class="button ghost icon-button" href=${to("quality", [], { tab: "runs" })} aria-label="All runs"><${Icon} name="left" size=${16} /></a>`;
  if (error) return html`<${Page} title="Run" tools=${back}><${Failed} error=${error} retry=${reload} /><//>`;
  if (data === null) return html`<${Page} title="Run" tools=${back}><${Loading} label="Reading the run" /><//>`;
  const { candidate_manifest, dataset_name, status, pass_rate, pass_count, fail_count, error_count, stats } = data;
  return html`<${Page}
    title=${candidate_manifest}
    about=${`on ${dataset_name}, ${ago(data.started_at)}`}
    tools=${html`${back}${isOpen && may(cancelRoute) ? html`<button type="button" class="danger-soft" onClick=${cancel}>Cancel</button>` : null}`}
  >
    <div class="scroll stack" tabindex="0" role="region" aria-label="Run">
      <p class="buttons"><${Standing} status=${status} rate=${pass_rate} /> <a href=${to("quality", ["dataset", dataset_name])}>Open the dataset</a></p>
      <${Facts} facts=${[
        ["Passed", count(pass_count)],
        ["Failed", count(fail_count)],
        ["Errors", count(error_count)],
        ["Took", duration(data.wall_ms)],
        ["Cost", money(stats.cost_usd + stats.judge_cost_usd)],
        ["Why it failed", data.error],
      ]} />
      <${Scores} scores=${data.scores ?? []} />
      ${may(compareRoute) && status !== "in_progress" ? html`<${Compare} run=${data} />` : null}
    </div>
  <//>`;
}

function Scores({ scores }) {
  if (scores.length === 0) return html`<p class="hint">No item is scored yet.</p>`;
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Scores"><table class="table">
    <thead><tr><th scope="col">Item</th><th scope="col">Result</th><th scope="col">Answer</th><th scope="col">Why</th><th scope="col">Took</th></tr></thead>
    <tbody>${scores.slice(0, shownMax).map(
      ({ item_id, pass, rule, reason, answer, error, duration_ms, thread_id }) => html`<tr key=${item_id}>
        <th scope="row" class="break"><a href=${to("chat", [suffixOf(thread_id)])}>${item_id}</a></th>
        <td><span class=${`chip ${pass ? "good" : "bad"}`}>${pass ? "pass" : rule === "error" ? "error" : "fail"}</span></td>
        <td dir="auto">${line(answer ?? error, 300)}</td>
        <td dir="auto">${line(reason ?? rule, 300)}</td>
        <td>${duration(duration_ms)}</td>
      </tr>`,
    )}</tbody>
  </table></div>
  ${scores.length > shownMax ? html`<p class="hint">The first ${shownMax} are shown.</p>` : null}`;
}

/** This run beside an earlier one of the same dataset, which is the baseline. */
function Compare({ run }) {
  const others = useResource("GET /eval/runs", { dataset: run.dataset_name, limit: 50 });
  const [other, setOther] = useState("");
  const [result, setResult] = useState(null);
  useEffect(() => {
    setResult(null);
    if (other === "") return;
    const sides = { baseline: { run_id: other }, candidates: [{ run_id: run.id, name: "this run" }] };
    void attempt(() => call(compareRoute, { dataset_name: run.dataset_name, ...sides })).then((found) =>
      setResult(found ?? null),
    );
  }, [other]);
  const choices = (others.data?.items ?? []).filter(({ id, status }) => id !== run.id && status === "completed");
  const compared = result?.results.find(({ is_baseline }) => !is_baseline);
  return html`<section class="panel stack" aria-label="Comparison">
    <div class="buttons"><h2>Compare with</h2>
      <select aria-label="Baseline" value=${other} onChange=${(event) => setOther(event.target.value)}>
        <option value="">no other run</option>
        ${choices.map(({ id, candidate_manifest, pass_rate, started_at }) => html`<option value=${id}>${candidate_manifest}, ${Math.round(pass_rate * 100)} %, ${ago(started_at)}</option>`)}
      </select>
    </div>
    ${
      compared
        ? html`<${Facts} facts=${[
            ["Difference", `${compared.lift_pp > 0 ? "+" : ""}${compared.lift_pp} percentage points`],
            ["Better", count(compared.wins)],
            ["Worse", count(compared.losses)],
            ["Equal", count(compared.ties)],
            ["Items that are worse", compared.regressions.slice(0, 50).join(", ")],
          ]} />`
        : null
    }
  </section>`;
}
