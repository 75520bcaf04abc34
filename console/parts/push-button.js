import { useEffect } from "preact/hooks";
import { html } from "../core/html.js";
import { lookAtPush, pushState, startPush, stopPush } from "../core/push.js";
import { Icon } from "./icon.js";
import { attempt } from "./toast.js";

/** Turns push notifications of this browser on and off; nothing where there are none. */
export function PushButton() {
  useEffect(() => void lookAtPush().catch(() => {}), []);
  const state = pushState.value;
  if (state === "hidden") return null;
  if (state === "blocked") return html`<span class="hint">This browser blocks notifications of this site.</span>`;
  const isOn = state === "on";
  const act = () => attempt(isOn ? stopPush : startPush, isOn ? "Notifications are off." : "");
  return html`<button type="button" aria-pressed=${isOn} onClick=${act}>
    <${Icon} name="bell" size=${16} /> ${isOn ? "Notifications are on" : "Notify me"}
  </button>`;
}
