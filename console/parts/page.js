import { html } from "../core/html.js";

/** The frame of a screen: its title, buttons beside it, filters below it, and a body that scrolls by itself. */
export function Page({ title, tools, filters, children, about }) {
  return html`<div class="page">
    <header class="page-header">
      <div class="page-title"><h1>${title}</h1>${about ? html`<p class="hint">${about}</p>` : null}</div>
      ${tools ? html`<div class="buttons">${tools}</div>` : null}
    </header>
    ${filters ? html`<div class="filters" role="search">${filters}</div>` : null}
    <div class="page-body">${children}</div>
  </div>`;
}

/** Buttons of which one is chosen. `options` are `[value, label]`. */
export function Choice({ label, options, value, choose }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(
      ([each, text]) =>
        html`<button key=${each} type="button" aria-pressed=${each === value} onClick=${() => choose(each)}>${text}</button>`,
    )}
  </div>`;
}

/** Characters from which a fact gets a line of its own. */
const longFrom = 40;

/** Facts as names and values. Facts without a value are left out. */
export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(
        ([name, value]) =>
          html`<div key=${name} class=${typeof value === "string" && value.length > longFrom ? "long" : ""}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`,
      )}
  </dl>`;
}
