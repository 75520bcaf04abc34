import { html } from "svc/console/core/html.js";
import { useResource } from "svc/console/core/resource.js";
import { Page } from "svc/console/parts/page.js";

/** The notes of the tenant. */
export function Screen() {
  const { data } = useResource("GET /notes");
  return html`<${Page} title="Notes"><ul>${data?.items.map(({ id, body }) => html`<li key=${id}>${body}</li>`)}</ul><//>`;
}
