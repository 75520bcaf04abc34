import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Choice } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const acceptRoute = "POST /skill-library/-/feedback/{feedback_id}/accept";
const rejectRoute = "POST /skill-library/-/feedback/{feedback_id}/reject";
const states = ["pending", "accepted", "applied", "failed", "rejected"].map((each) => [
  each,
  each[0].toUpperCase() + each.slice(1),
]);

/** Feedback on skills, and its decision. */
export function Feedback() {
  const [status, setStatus] = useState("pending");
  const pages = usePages("GET /skill-library/-/feedback", { status, limit: 50 });
  const choice = html`<div class="list-head"><${Choice} label="State" options=${states} value=${status} choose=${setStatus} /></div>`;
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ id }) => id}
    row=${(one) => html`<${Row} feedback=${one} onDecided=${() => pages.set((items) => items.filter((each) => each !== one))} />`}
    label="Feedback"
    estimate=${120}
    head=${choice}
    empty=${html`${choice}<${Empty} icon="chat" title=${`No feedback is ${status}`} />`}
  />`;
}

function Row({ feedback, onDecided }) {
  const { id, name, body, author, source, created_at, status, result_version, error, decision_note } = feedback;
  const [note, setNote] = useState("");
  const decide = async (route, done, more) => {
    if ((await attempt(() => call(route, { feedback_id: id, ...more }), done)) !== undefined) onDecided();
  };
  return html`<div class="inbox-item stack">
    <p class="inbox-from"><a href=${to("skills", [name])}><b>${name}</b></a> · ${author}${source === "agent" ? " (agent)" : ""} · ${ago(created_at)}</p>
    <p class="plain-text" dir="auto">${body}</p>
    ${error ? html`<p class="problem break">${error}</p>` : null}
    ${decision_note ? html`<p class="hint" dir="auto">${decision_note}</p>` : null}
    ${result_version ? html`<p><a href=${to("skills", [name, result_version])}>Draft ${result_version} applies it</a></p>` : null}
    ${
      status === "pending" && may(acceptRoute)
        ? html`<div class="buttons">
          <button type="button" class="primary" onClick=${() => decide(acceptRoute, "A worker rewrites the skill", { improve: true, ...(note && { note }) })}>Accept and rewrite</button>
          <button type="button" onClick=${() => decide(acceptRoute, "Accepted", { improve: false, ...(note && { note }) })}>Accept only</button>
          <input aria-label="Note" placeholder="Note; needed to reject" maxlength="2000" value=${note} onInput=${(event) => setNote(event.target.value)} />
          <button type="button" class="danger-soft" disabled=${note.trim() === ""} onClick=${() => decide(rejectRoute, "Rejected", { note })}>Reject</button>
        </div>`
        : null
    }
  </div>`;
}
