import { html } from "../../core/html.js";

/** The quality and the security of a version. */
export function Marks({ version: { quality_score, security_status } }) {
  const kind = { pass: "good", advisory: "warn", fail: "bad" }[security_status];
  return html`<span class="buttons"><span class="chip">quality ${quality_score}</span><span class=${`chip ${kind}`}>scan: ${security_status}</span></span>`;
}
