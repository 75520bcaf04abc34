import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../core/html.js";
import { Icon } from "./icon.js";

/** A button that opens a list of actions `{icon, label, act}`. Arrow keys move in it. */
export function Menu({ label, items, icon = "more" }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef(null);
  const button = useRef(null);
  const close = () => setOpen(false);
  useEffect(() => {
    if (!isOpen) return;
    box.current.querySelector("[role=menuitem]")?.focus();
    const outside = (event) => box.current?.contains(event.target) || close();
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [isOpen]);
  const onKeyDown = (event) => {
    const all = [...box.current.querySelectorAll("[role=menuitem]")];
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape") {
      close();
      button.current.focus();
    } else if (next !== undefined) {
      event.preventDefault();
      all.at(next % all.length)?.focus();
    }
  };
  return html`<span class="menu" ref=${box} onKeyDown=${isOpen ? onKeyDown : undefined}>
    <button ref=${button} type="button" class="ghost icon-button" aria-haspopup="menu" aria-expanded=${isOpen} aria-label=${label} onClick=${() => setOpen(!isOpen)}>
      <${Icon} name=${icon} />
    </button>
    ${
      isOpen
        ? html`<div class="menu-list" role="menu" aria-label=${label}>
          ${items.map(
            ({ icon: each, label: text, act }) => html`<button
              key=${text}
              type="button"
              role="menuitem"
              tabindex="-1"
              onClick=${() => {
                close();
                act();
              }}
            >
              <${Icon} name=${each} size=${16} /> ${text}
            </button>`,
          )}
        </div>`
        : null
    }
  </span>`;
}
