import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, moment } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { Diff } from "../../parts/diff.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

/** The stored versions of an agent: compare two, go back to one, or give one to a share of the threads. */
export function Versions({ name, item, onChanged }) {
  const { data, error, reload } = useResource("GET /manifests/{name}/versions", { name, limit: 100 });
  const [pair, setPair] = useState(null);
  const [weight, setWeight] = useState(10);
  const [asked, setAsked] = useState(null);
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Reading the versions" />`;
  const mayWrite = may("POST /manifests/{name}/rollback");
  const versions = data.items;
  const [newest, before] = versions;
  const [one, two] = pair ?? [before?.version ?? newest.version, newest.version];
  const act = async (action, done) => {
    if ((await attempt(action, done)) === undefined) return;
    reload();
    onChanged();
  };
  const select = (label, value, choose) =>
    html`<select aria-label=${label} value=${value} onChange=${(event) => choose(Number(event.target.value))}>${versions.map(({ version }) => html`<option value=${version}>version ${version}</option>`)}</select>`;
  return html`
    ${
      item.canary_version
        ? html`<p class="banner" role="status"><span>Version ${item.canary_version} gets ${item.canary_weight} % of the threads.</span>
          ${mayWrite ? html`<button type="button" onClick=${() => act(() => call("DELETE /manifests/{name}/canary", { name }), "The canary is over")}>End the canary</button>` : null}</p>`
        : null
    }
    <section class="panel table-box" tabindex="0" aria-label="Versions">
      <table class="table">
        <thead><tr><th scope="col">Version</th><th scope="col">Comment</th><th scope="col">By</th><th scope="col">Stored</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${versions.map(
          ({ version, comment, created_by, created_at, active, canary }) => html`<tr key=${version}>
            <th scope="row">${version} ${active ? html`<span class="chip good">active</span>` : null} ${canary ? html`<span class="chip warn">canary</span>` : null}</th>
            <td dir="auto">${comment}</td>
            <td>${created_by}</td>
            <td title=${moment(created_at)}>${ago(created_at)}</td>
            <td>${
              active || !mayWrite
                ? null
                : html`<span class="buttons"><button type="button" class="small" onClick=${() => setAsked(version)}>Activate</button>${canary ? null : html`<button type="button" class="small ghost" onClick=${() => act(() => call("POST /manifests/{name}/canary", { name, canary_version: version, canary_weight: weight }), "The canary has begun")}>Canary ${weight} %</button>`}</span>`
            }</td>
          </tr>`,
        )}</tbody>
      </table>
      ${mayWrite && versions.length > 1 ? html`<label class="canary">Share of a canary <input type="range" min="1" max="99" value=${weight} onInput=${(event) => setWeight(Number(event.target.value))} /> ${weight} %</label>` : null}
    </section>
    ${
      versions.length > 1
        ? html`<section class="panel stack" aria-label="Differences">
          <div class="buttons"><h2>Compare</h2>${select("Older version", one, (version) => setPair([version, two]))} with ${select("Newer version", two, (version) => setPair([one, version]))}</div>
          <${VersionsDiff} key=${`${one} ${two}`} name=${name} one=${one} two=${two} />
        </section>`
        : null
    }
    ${
      asked === null
        ? null
        : html`<${Confirm}
          title=${`Activate version ${asked}?`}
          text="New turns use it at once, and a canary ends."
          action="Activate"
          close=${() => setAsked(null)}
          confirm=${() => act(() => call("POST /manifests/{name}/rollback", { name, version: asked }), `Version ${asked} is active`)}
        />`
    }
  `;
}

function VersionsDiff({ name, one, two }) {
  const first = useResource("GET /manifests/{name}", { name, version: one });
  const second = useResource("GET /manifests/{name}", { name, version: two });
  const error = first.error ?? second.error;
  if (error) return html`<${Failed} error=${error} />`;
  if (first.data === null || second.data === null) return html`<${Loading} label="Reading both" />`;
  const text = ({ manifest }) => JSON.stringify(manifest, null, 2);
  return html`<${Diff} before=${text(first.data)} after=${text(second.data)} label=${`Version ${one} and ${two}`} />`;
}
