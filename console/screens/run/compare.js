import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, compact, duration, money } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { go, to } from "../../core/router.js";
import { Diff } from "../../parts/diff.js";
import { Failed, Loading } from "../../parts/states.js";
import { outlineOf, readTimeline, spentOf } from "./timeline.js";

/** This run beside another: figures, steps and answers. */
export function Compare({ run, items, other }) {
  const runs = useResource("GET /runs", { limit: 50 });
  const [read, setRead] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (!other) return setRead(null);
    setError(null);
    (async () => {
      const second = await call("GET /runs/{run_id}", { run_id: other });
      const [secondItems, spent, secondSpent] = await Promise.all([readTimeline(other), spentOf(run), spentOf(second)]);
      setRead({ second, secondItems, spent, secondSpent });
    })().catch(setError);
  }, [other]);
  const choices = (runs.data?.items ?? []).filter(({ run_id }) => run_id !== run.run_id);
  return html`<section class="panel stack" aria-label="Comparison">
    <div class="buttons">
      <h2>Compare with</h2>
      <select aria-label="Other run" value=${other ?? ""} onChange=${(event) => go(to("run", [run.run_id], { with: event.target.value }))}>
        <option value="">no other run</option>
        ${choices.map(({ run_id, manifest_id, accepted_at, status }) => html`<option value=${run_id}>${manifest_id}, ${ago(accepted_at)}, ${status}</option>`)}
        ${other && !choices.some(({ run_id }) => run_id === other) ? html`<option value=${other}>${other}</option>` : null}
      </select>
    </div>
    ${error ? html`<${Failed} error=${error} />` : null}
    ${other && read === null && error === null ? html`<${Loading} label="Reading the other run" />` : null}
    ${read !== null && items !== null ? html`<${Both} run=${run} items=${items} ...${read} />` : null}
  </section>`;
}

function Both({ run, items, second, secondItems, spent, secondSpent }) {
  const took = ({ begun_at, ended_at }) => (begun_at === null ? "" : duration((ended_at ?? Date.now()) - begun_at));
  const calls = (list, kind) => list.filter((each) => each.kind === kind).length;
  const rows = [
    ["Agent", run.manifest_id, second.manifest_id],
    ["Status", run.status, second.status],
    ["Took", took(run), took(second)],
    ["Model calls", calls(items, "model_call"), calls(secondItems, "model_call")],
    ["Tool calls", calls(items, "tool_call"), calls(secondItems, "tool_call")],
    ["Tokens", spent && compact(spent.tokens), secondSpent && compact(secondSpent.tokens)],
    ["Cost", spent && money(spent.cost), secondSpent && money(secondSpent.cost)],
  ];
  return html`
    <table class="table">
      <thead><tr><th scope="col">Figure</th><th scope="col">This run</th><th scope="col">Other run</th></tr></thead>
      <tbody>${rows.map(([name, one, two]) => html`<tr key=${name} class=${one === two ? "" : "differs"}><th scope="row">${name}</th><td>${one}</td><td>${two}</td></tr>`)}</tbody>
    </table>
    <h3>Steps</h3>
    <${Diff} before=${outlineOf(items)} after=${outlineOf(secondItems)} label="Steps of both runs" />
    <h3>Answers</h3>
    <${Diff} before=${run.final?.content ?? ""} after=${second.final?.content ?? ""} label="Answers of both runs" />
  `;
}
