import { html } from "../core/html.js";
import { Icon } from "./icon.js";

/** What a part shows before its data is there. */
export function Loading({ label = "Loading" }) {
  return html`<div class="state" role="status"><span class="spinner" aria-hidden="true"></span><p>${label}…</p></div>`;
}

/** What a part shows instead of data that could not be read. */
export function Failed({ error, retry }) {
  const scope = error.status === 403;
  return html`<div class="state failed" role="alert">
    <${Icon} name="warn" size=${28} />
    <p><b>${scope ? "Not allowed" : "That did not work"}</b></p>
    <p>${error.message}</p>
    ${error.requestId ? html`<p class="hint">request <code>${error.requestId}</code></p>` : null}
    ${retry ? html`<button type="button" onClick=${retry}><${Icon} name="refresh" size=${16} /> Try again</button>` : null}
  </div>`;
}

/** What a list shows while it has nothing, with the next thing to do. */
export function Empty({ icon = "search", title, children }) {
  return html`<div class="state"><${Icon} name=${icon} size=${28} /><p><b>${title}</b></p>${children ? html`<div class="hint">${children}</div>` : null}</div>`;
}
