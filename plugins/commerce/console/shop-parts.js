import { html } from "svc/console/core/html.js";
import { useResource } from "svc/console/core/resource.js";

// Parts that the screens of the shop share.

/** Returns an amount as people read it, such as "$49.00". All currencies of the shop have two decimals. */
export function price(cents, currency) {
  return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(cents / 100);
}

const tones = { paid: "good", fulfilled: "good", ordered: "good", active: "good", open: "warn", expired: "bad" };

/** A state of an order, a quote or an invoice. */
export function State({ of }) {
  return html`<span class=${`chip ${tones[of] ?? of}`}>${of.replaceAll("_", " ")}</span>`;
}

/** Chooses a brand of the tenant. `own` names the choice of no brand; without it, a brand must be chosen. */
export function BrandPicker({ brands, value, choose, own }) {
  return html`<label>Brand <select value=${value} onChange=${(event) => choose(event.target.value)}>
    ${own ? html`<option value="">${own}</option>` : null}
    ${brands.map(({ id, name }) => html`<option key=${id} value=${id}>${name}</option>`)}
  </select></label>`;
}

/** Reads the first 200 brands of the tenant. Returns `{brands, error, reload}`; `brands` is null until they have arrived. */
export function useBrands() {
  const { data, error, reload } = useResource("GET /brands", { limit: 200 });
  return { brands: data?.brands ?? null, error, reload };
}

/** A table of lines with their amounts. `lines` are `[key, name, quantity, price of a unit, price of the line]`, `sums` are `[name, amount]`. */
export function Lines({ lines, sums }) {
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Lines"><table class="table">
    <thead><tr><th scope="col">Product</th><th scope="col" class="figure">Quantity</th><th scope="col" class="figure">Price</th>${lines.some((line) => line.length > 4) ? html`<th scope="col" class="figure">Total</th>` : null}</tr></thead>
    <tbody>
      ${lines.map(([key, name, ...figures]) => html`<tr key=${key}><th scope="row" dir="auto" class="break">${name}</th>${figures.map((figure) => html`<td class="figure">${figure}</td>`)}</tr>`)}
    </tbody>
  </table></div>
  <dl class="facts">${sums.map(([name, amount]) => html`<div key=${name}><dt>${name}</dt><dd>${amount}</dd></div>`)}</dl>`;
}
