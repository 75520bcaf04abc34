import { ago, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { Dialog } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { textOf } from "./blocks.js";

/** All branches of a thread by their last event. One of them is active; another can become active or a thread of its own. */
export function TreeDialog({ thread, rewind, fork, close }) {
  const tree = thread.tree.value;
  const active = new Set(tree.path().map(({ id }) => id));
  return html`<${Dialog} title="Branches" close=${close} wide>
    <p>A rewind or an edited message leaves a branch behind. Nothing is deleted.</p>
    <ul class="branches">
      ${tree.ends().map((end) => {
        const question = tree.lastQuestion(end);
        const isActive = end.id === tree.leafId;
        return html`<li key=${end.id} class=${isActive ? "active" : ""}>
          <div>
            <b dir="auto">${line(textOf(question?.content ?? end.kind), 100)}</b>
            <p dir="auto">${line(textOf(end.content) || end.kind, 140)}</p>
            <small>${ago(end.timestamp)}${isActive ? " · active" : active.has(end.id) ? " · on the active branch" : ""}</small>
          </div>
          <div class="buttons">
            ${
              isActive
                ? null
                : html`<button
                  type="button"
                  onClick=${() => {
                    close();
                    void rewind(end.id);
                  }}
                >
                  <${Icon} name="rewind" size=${15} /> Use
                </button>`
            }
            <button
              type="button"
              class="ghost"
              onClick=${() => {
                close();
                void fork(end.id);
              }}
            >
              <${Icon} name="fork" size=${15} /> Fork
            </button>
          </div>
        </li>`;
      })}
    </ul>
  </${Dialog}>`;
}
