import { html } from "../../core/html.js";
import { Icon } from "../../parts/icon.js";

const drawings = { completed: "check", in_progress: "run", pending: "clock" };

/** The agent's list of steps. */
export function Todos({ todos }) {
  if (todos.length === 0) return null;
  const done = todos.filter(({ status }) => status === "completed").length;
  const now = todos.find(({ status }) => status === "in_progress");
  return html`<details class="todos">
    <summary>
      <b>${done} of ${todos.length} steps</b>
      <span class="preview" dir="auto">${now ? now.active_form || now.content : done === todos.length ? "All done" : ""}</span>
      <progress max=${todos.length} value=${done} aria-label="Steps done"></progress>
    </summary>
    <ol>
      ${todos.map(
        ({ id, content, status }) =>
          html`<li key=${id} class=${status}><${Icon} name=${drawings[status]} size=${15} label=${status.replace("_", " ")} /> <span dir="auto">${content}</span></li>`,
      )}
    </ol>
  </details>`;
}
