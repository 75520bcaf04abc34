import { useState } from "preact/hooks";
import { html } from "../core/html.js";
import { Icon } from "./icon.js";
import { piecesOf } from "./long-text.js";
import { copyText } from "./toast.js";

/** Characters that a block shows before "Show all". */
const shownChars = 6000;

/** A text in a fixed font, with a button that copies it. Long texts are cut until they are asked for. */
export function Code({ text, label = "Text" }) {
  const [isWhole, setWhole] = useState(false);
  const whole = typeof text === "string" ? text : (JSON.stringify(text, null, 2) ?? "");
  const isCut = whole.length > shownChars && !isWhole;
  return html`<div class="code">
    <button type="button" class="ghost icon-button copy" aria-label=${`Copy: ${label}`} onClick=${() => copyText(whole)}>
      <${Icon} name="copy" size=${15} />
    </button>
    <pre tabindex="0" role="region" aria-label=${label}>${isCut ? whole.slice(0, shownChars) : whole.length > shownChars ? piecesOf(whole) : whole}</pre>
    ${
      isCut
        ? html`<button type="button" class="ghost small" onClick=${() => setWhole(true)}>Show all ${whole.length.toLocaleString()} characters</button>`
        : null
    }
  </div>`;
}

/** A text that is JSON is shown with one field on a line. */
export function pretty(text) {
  if (typeof text !== "string" || !/^\s*[[{]/.test(text) || text.length > 200_000) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
