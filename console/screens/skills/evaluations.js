import { call } from "../../core/api.js";
import { ago } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages } from "../../core/resource.js";
import { has, may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const queueRoute = "POST /skill-library/{name}/versions/{version}/eval";

/** The evaluations of a version: answers with and without the skill, scored by a judge. */
export function Evaluations({ name, version }) {
  const pages = usePages("GET /skill-library/{name}/evals", { name, version, limit: 20 });
  const queue = async () => {
    if ((await attempt(() => call(queueRoute, { name, version }), "Queued")) !== undefined) pages.reload();
  };
  if (!has("GET /skill-library/{name}/evals")) return null;
  return html`<section class="panel stack" aria-label="Evaluations">
    <div class="buttons">
      <h2>Evaluations</h2>
      ${may(queueRoute) ? html`<button type="button" onClick=${queue}><${Icon} name="run" size=${16} /> Evaluate ${version}</button>` : null}
      <button type="button" class="ghost icon-button" aria-label="Refresh the evaluations" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /></button>
    </div>
    ${
      pages.error
        ? html`<${Failed} error=${pages.error} retry=${pages.reload} />`
        : pages.items.length === 0
          ? pages.isWhole
            ? html`<p class="hint">This version has no evaluation.</p>`
            : html`<${Loading} label="Reading evaluations" />`
          : pages.items.map((each) => html`<${Evaluation} key=${each.id} evaluation=${each} />`)
    }
  </section>`;
}

function Evaluation({ evaluation }) {
  const { status, uplift, baseline_score, with_skill_score, created_at, requested_by, results, error, gate_note } =
    evaluation;
  const kind = status === "succeeded" ? "good" : status === "failed" ? "bad" : "warn";
  return html`<details>
    <summary>
      <span class=${`chip ${kind}`}>${status}</span>
      ${uplift === null ? null : html`<b>${uplift > 0 ? "+" : ""}${uplift} points</b>`}
      <small> ${uplift === null ? "" : `from ${baseline_score} to ${with_skill_score}, `}${requested_by}, ${ago(created_at)}</small>
    </summary>
    <div class="stack">
      ${error ? html`<p class="problem break">${error}</p>` : null}
      ${gate_note ? html`<p class="hint">${gate_note}</p>` : null}
      ${
        results.length > 0
          ? html`<div class="table-box" tabindex="0" role="region" aria-label="Scores"><table class="table">
            <thead><tr><th scope="col">Scenario</th><th scope="col">Without</th><th scope="col">With</th><th scope="col">Why</th></tr></thead>
            <tbody>${results.map((one) => html`<tr key=${one.name}><th scope="row" dir="auto">${one.name}</th><td>${one.baseline_score}</td><td>${one.with_skill_score}</td><td dir="auto">${one.with_skill_reason}</td></tr>`)}</tbody>
          </table></div>`
          : html`<p class="hint">No scenario is scored yet.</p>`
      }
    </div>
  </details>`;
}
