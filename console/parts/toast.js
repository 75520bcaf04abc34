import { signal } from "@preact/signals";
import { html } from "../core/html.js";
import { Icon } from "./icon.js";

const toasts = signal([]);
let last = 0;
const shownMs = 5000;

/** Shows a sentence for a few seconds. `kind` is `ok` or `error`. */
export function toast(text, kind = "ok") {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(() => {
    toasts.value = toasts.value.filter((each) => each.id !== id);
  }, shownMs);
}

/** Runs an action, and shows the error if it fails. Returns what the action returns, undefined after an error. */
export async function attempt(action, done = "") {
  try {
    const result = await action();
    if (done !== "") toast(done);
    return result ?? null;
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, "error");
    return undefined;
  }
}

/** Copies a text, and says so. */
export function copyText(text) {
  return attempt(() => navigator.clipboard.writeText(text), "Copied");
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map(
      ({ id, text, kind }) =>
        html`<div key=${id} class=${`toast ${kind}`}><${Icon} name=${kind === "ok" ? "check" : "warn"} /><span>${text}</span></div>`,
    )}
  </div>`;
}
