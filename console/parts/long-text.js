import { useState } from "preact/hooks";
import { count } from "../core/format.js";
import { html } from "../core/html.js";

/** Characters that are shown before "Show all". */
const shownChars = 12_000;
/** A browser lays out each piece when it comes into view. */
const pieceChars = 4_000;

/** A text of any length as it is. A browser would need seconds to lay out a long one at once. */
export function LongText({ text }) {
  const [isWhole, setWhole] = useState(false);
  if (text.length <= shownChars) return html`<div class="plain-text" dir="auto">${text}</div>`;
  if (!isWhole)
    return html`<div class="plain-text" dir="auto">${text.slice(0, shownChars)}…</div>
      <button type="button" class="small" onClick=${() => setWhole(true)}>Show all ${count(text.length)} characters</button>`;
  return html`<div class="plain-text long-text" tabindex="0" role="region" aria-label="Long text" dir="auto">${piecesOf(text)}</div>`;
}

/** Returns the text as pieces that end at a line where there is one. */
export function piecesOf(text) {
  const pieces = [];
  for (let at = 0; at < text.length; ) {
    const limit = at + pieceChars;
    const line = text.lastIndexOf("\n", limit);
    const end = line > at ? line + 1 : limit;
    pieces.push(html`<div key=${at}>${text.slice(at, end)}</div>`);
    at = end;
  }
  return pieces;
}
