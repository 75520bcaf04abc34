import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, count, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { go, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const putRoute = "PUT /eval/datasets/{name}";

/** The datasets of the tenant. */
export function Datasets() {
  const { data, error, reload } = useResource("GET /eval/datasets");
  const [name, setName] = useState("");
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Reading the datasets" />`;
  const create = async (event) => {
    event.preventDefault();
    if ((await attempt(() => call(putRoute, { name, items: [] }))) !== undefined) go(to("quality", ["dataset", name]));
  };
  return html`<div class="scroll stack" tabindex="0" role="region" aria-label="Datasets">
    ${
      may(putRoute)
        ? html`<form class="buttons" onSubmit=${create}>
          <label>New dataset <input value=${name} maxlength="128" onInput=${(event) => setName(event.target.value)} /></label>
          <button class="primary" disabled=${name.trim() === ""}><${Icon} name="plus" size=${16} /> Create</button>
        </form>`
        : null
    }
    ${
      data.items.length === 0
        ? html`<${Empty} icon="quality" title="No dataset yet">A dataset has questions, and rules that good answers pass.<//>`
        : html`<ul class="stack" aria-label="All datasets">${data.items.map(
            ({ name: each, description, item_count, updated_at, continuous }) => html`<li key=${each} class="row">
              <a class="row-main" href=${to("quality", ["dataset", each])}><b class="break">${each}</b><small dir="auto">${line(description, 160)}</small></a>
              ${continuous ? html`<span class="chip">each ${continuous.every_minutes} min</span>` : null}
              <span class="row-time">${count(item_count)} ${item_count === 1 ? "item" : "items"} · ${ago(updated_at)}</span>
            </li>`,
          )}</ul>`
    }
  </div>`;
}
