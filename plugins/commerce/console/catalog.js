import { useRef, useState } from "preact/hooks";
import { call } from "svc/console/core/api.js";
import { count, line } from "svc/console/core/format.js";
import { html } from "svc/console/core/html.js";
import { usePages } from "svc/console/core/resource.js";
import { go, place, to } from "svc/console/core/router.js";
import { may } from "svc/console/core/session.js";
import { Icon } from "svc/console/parts/icon.js";
import { Page } from "svc/console/parts/page.js";
import { PagesList } from "svc/console/parts/pages-list.js";
import { Empty, Failed, Loading } from "svc/console/parts/states.js";
import { attempt, toast } from "svc/console/parts/toast.js";
import { BrandPicker, price, State, useBrands } from "./shop-parts.js";

const importRoute = "POST /brands/{id}/catalog";
const reindexRoute = "POST /brands/{id}/reindex";
/** Broken rows that are shown after an import. */
const shownErrors = 20;

/** The products of a brand, with an import of a JSON file. */
export function Screen() {
  const { brands, error, reload } = useBrands();
  const frame = (body) => html`<${Page} title="Catalog">${body}<//>`;
  if (error) return frame(html`<${Failed} error=${error} retry=${reload} />`);
  if (brands === null) return frame(html`<${Loading} label="Reading brands" />`);
  if (brands.length === 0)
    return frame(
      html`<${Empty} icon="tag" title="No brand yet"><code>POST /brands</code> makes one with its storefront and its agent.<//>`,
    );
  const chosen = place.value.query.get("brand") ?? brands[0].id;
  const brand = brands.find(({ id }) => id === chosen) ?? brands[0];
  return html`<${Catalog} key=${brand.id} brand=${brand} brands=${brands} />`;
}

function Catalog({ brand, brands }) {
  const { id, status } = brand;
  const pages = usePages("GET /brands/{id}/catalog", { id, limit: 100 }, { itemsOf: ({ products }) => products });
  const [broken, setBroken] = useState(null);
  const reindex = async () => {
    const done = await attempt(() => call(reindexRoute, { id }));
    if (done) toast(`Indexed ${count(done.reindexed)} products`);
  };
  return html`<${Page}
    title="Catalog"
    about=${`Products of ${brand.name}`}
    tools=${html`
      ${may(importRoute) ? html`<${Import} id=${id} onImported=${pages.reload} onBroken=${setBroken} />` : null}
      ${may(reindexRoute) ? html`<button type="button" onClick=${reindex}><${Icon} name="refresh" size=${16} /> Reindex</button>` : null}
    `}
    filters=${html`<${BrandPicker} brands=${brands} value=${id} choose=${(next) => go(to("catalog", [], { brand: next }), { replace: true })} />
      ${status === "active" ? null : html`<${State} of=${status} />`}`}
  >
    ${broken ? html`<${Broken} made=${broken} close=${() => setBroken(null)} />` : null}
    <${PagesList}
      pages=${pages}
      keyOf=${({ id: sku }) => sku}
      row=${(product) => html`<${Row} product=${product} />`}
      label="Products"
      estimate=${64}
      empty=${html`<${Empty} icon="tag" title="No product yet">Import a JSON file <code>${'{"products": […]}'}</code> or a CSV file.<//>`}
    />
  <//>`;
}

function Row({ product }) {
  const { id, title, category, price_cents, currency, inventory, active } = product;
  return html`<div class="row">
    <span class="row-main"><b dir="auto">${line(title, 120)}</b><small class="break"><code>${id}</code> ${category}</small></span>
    ${active ? null : html`<span class="chip">inactive</span>`}
    ${inventory === 0 ? html`<span class="chip bad">sold out</span>` : null}
    <span class="row-time">${price(price_cents, currency)} · ${inventory < 0 ? "unlimited" : `${count(inventory)} in stock`}</span>
  </div>`;
}

/** Imports a file of products: JSON as `{products: […]}`, or CSV with a head line. */
function Import({ id, onImported, onBroken }) {
  const picker = useRef(null);
  const [isBusy, setBusy] = useState(false);
  const take = async (file) => {
    if (!file) return;
    picker.current.value = "";
    setBusy(true);
    const made = await attempt(async () => sent(id, file));
    setBusy(false);
    if (!made) return;
    toast(`Imported ${count(made.imported)} ${made.imported === 1 ? "product" : "products"}`);
    onBroken(made.error_count > 0 ? made : null);
    onImported();
  };
  return html`<button type="button" class="primary" disabled=${isBusy} onClick=${() => picker.current.click()}><${Icon} name="upload" size=${16} /> ${isBusy ? "Importing…" : "Import"}</button>
    <input ref=${picker} type="file" aria-label="File of products" accept=".json,.csv,application/json,text/csv" hidden onChange=${(event) => void take(event.target.files[0])} />`;
}

/** Sends a file of products. A list in JSON is the list of its products. */
async function sent(id, file) {
  if (!/\.json$/i.test(file.name))
    return call(importRoute, { id }, { body: file, headers: { "content-type": "text/csv" } });
  const read = JSON.parse(await file.text());
  return call(importRoute, { id, products: Array.isArray(read) ? read : read.products });
}

function Broken({ made, close }) {
  return html`<section class="panel stack" aria-label="Rows that were not imported">
    <div class="buttons"><h2>${count(made.error_count)} ${made.error_count === 1 ? "row was" : "rows were"} not imported</h2>
      <button type="button" class="ghost icon-button" aria-label="Close" onClick=${close}><${Icon} name="cross" size=${16} /></button></div>
    <ul>${made.errors.slice(0, shownErrors).map(({ index, id, error }) => html`<li key=${index} class="break">Row ${index + 1} ${id ? html`<code>${id}</code>` : null}: ${error}</li>`)}</ul>
  </section>`;
}
