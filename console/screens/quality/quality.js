import { html } from "../../core/html.js";
import { go, place, to } from "../../core/router.js";
import { Choice, Page } from "../../parts/page.js";
import { Dataset } from "./dataset.js";
import { Datasets } from "./datasets.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";

const tabs = [
  ["datasets", "Datasets"],
  ["runs", "Runs"],
];

/** Evaluations of agents: datasets and runs; or one of them. */
export function Screen() {
  const [kind, id] = place.value.parts;
  const tab = place.value.query.get("tab") ?? "datasets";
  if (kind === "dataset" && id !== undefined) return html`<${Dataset} key=${id} name=${id} />`;
  if (kind === "run" && id !== undefined) return html`<${Run} key=${id} id=${id} />`;
  return html`<${Page}
    title="Quality"
    about="Datasets of questions, and how agents answer them"
    filters=${html`<${Choice} label="Part" options=${tabs} value=${tab} choose=${(next) => go(to("quality", [], { tab: next }))} />`}
  >
    ${tab === "datasets" ? html`<${Datasets} />` : html`<${Runs} input=${{}} />`}
  <//>`;
}
