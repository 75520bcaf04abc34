import { html } from "../core/html.js";
import { Failed, Loading } from "./states.js";
import { VirtualList } from "./virtual.js";

/** A list that is read page by page while a person scrolls. `pages` comes from `usePages`. */
export function PagesList({ pages, items = pages.items, keyOf, row, label, empty, estimate, head }) {
  if (pages.error && pages.items.length === 0) return html`<${Failed} error=${pages.error} retry=${pages.reload} />`;
  if (pages.items.length === 0 && !pages.isWhole) return html`<${Loading} label=${`Reading ${label.toLowerCase()}`} />`;
  if (items.length === 0 && pages.isWhole) return empty;
  return html`<${VirtualList}
    items=${items}
    keyOf=${keyOf}
    row=${row}
    label=${label}
    estimate=${estimate}
    head=${head}
    onEnd=${pages.more}
    foot=${
      pages.isLoading
        ? html`<p class="hint list-foot" role="status">Reading more…</p>`
        : pages.error
          ? html`<p class="list-foot"><button type="button" onClick=${pages.retry}>Read more</button></p>`
          : null
    }
  />`;
}
