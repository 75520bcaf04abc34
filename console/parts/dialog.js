import { useEffect, useId, useRef } from "preact/hooks";
import { html } from "../core/html.js";
import { Icon } from "./icon.js";

/** A dialog over the page. The browser keeps the focus inside, and Escape closes it. */
export function Dialog({ title, close, wide = false, children, actions }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog
    ref=${element}
    class=${wide ? "wide" : ""}
    aria-labelledby=${id}
    onCancel=${(event) => {
      event.preventDefault();
      close();
    }}
    onClick=${(event) => event.target === element.current && close()}
  >
    <div class="dialog-inside">
      <header>
        <h2 id=${id}>${title}</h2>
        <button type="button" class="ghost icon-button" aria-label="Close" onClick=${close}><${Icon} name="cross" /></button>
      </header>
      <div class="dialog-body">${children}</div>
      ${actions ? html`<footer>${actions}</footer>` : null}
    </div>
  </dialog>`;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, text, action, close, confirm }) {
  return html`<${Dialog}
    title=${title}
    close=${close}
    actions=${html`<button type="button" onClick=${close}>Cancel</button>
      <button
        type="button"
        class="danger"
        onClick=${() => {
          close();
          confirm();
        }}
      >
        ${action}
      </button>`}
    ><p>${text}</p><//
  >`;
}
