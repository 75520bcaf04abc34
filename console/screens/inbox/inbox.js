import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, line, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { usePages } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Approval, Arguments, Evidence } from "../../parts/approval.js";
import { Icon } from "../../parts/icon.js";
import { Choice, Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { PushButton } from "../../parts/push-button.js";
import { Question } from "../../parts/question.js";
import { Empty } from "../../parts/states.js";

const tabs = [
  ["pending", "Waiting"],
  ["approved", "Approved"],
  ["denied", "Denied"],
  ["expired", "Expired"],
];
/** Waiting runs whose questions are read. */
const questionsMax = 20;

/** What waits for a person: calls to approve and questions to answer; and what was decided. */
export function Screen() {
  const [status, setStatus] = useState("pending");
  const pages = usePages("GET /approvals", { status, limit: 50 });
  useEffect(() => onNews(({ kind }) => (kind === "approval" || kind === "reset") && pages.reload()), []);
  const remove = (id) => pages.set((items) => items.filter(({ approval_id }) => approval_id !== id));
  return html`<${Page}
    title="Inbox"
    about="Calls and questions that wait for a person"
    tools=${html`<${PushButton} /> <button type="button" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /> Refresh</button>`}
    filters=${html`<${Choice} label="Status" options=${tabs} value=${status} choose=${setStatus} />`}
  >
    <${PagesList}
      pages=${pages}
      keyOf=${({ approval_id }) => approval_id}
      row=${(request) => (status === "pending" ? html`<${Waiting} request=${request} onDecided=${() => remove(request.approval_id)} />` : html`<${Decided} request=${request} />`)}
      label="Approvals"
      estimate=${300}
      head=${status === "pending" ? html`<${Questions} />` : null}
      empty=${html`<div class="scroll" tabindex="0">
        ${status === "pending" ? html`<${Questions} />` : null}
        <${Empty} icon="inbox" title=${status === "pending" ? "No approval waits" : `Nothing ${status}`}>
          ${status === "pending" ? html`An agent asks here before a call that its manifest names in <code>approvals</code>.` : null}
        <//>
      </div>`}
    />
  <//>`;
}

function Waiting({ request, onDecided }) {
  return html`<div class="inbox-item">
    <p class="inbox-from">
      <b>${request.manifest_id}</b> for ${request.principal_subj} · ${ago(request.created_at)}
      ${request.thread_id ? html` · <a href=${to("chat", [suffixOf(request.thread_id)])}>open the thread</a>` : null}
    </p>
    <${Approval} request=${request} onDecided=${onDecided} />
  </div>`;
}

function Decided({ request }) {
  const {
    tool_name,
    manifest_id,
    status,
    decided_by,
    decided_at,
    decision_note,
    args,
    edited_args,
    evidence,
    rule_id,
    thread_id,
  } = request;
  return html`<details class="inbox-item decided">
    <summary>
      <span class=${`chip ${status === "approved" ? "good" : status === "denied" ? "bad" : ""}`}>${status}</span>
      <b class="break"><code>${tool_name}</code> of ${manifest_id}</b>
      <small>${decided_by ? `by ${decided_by}, ` : ""}${ago(decided_at ?? request.created_at)}</small>
    </summary>
    <div class="stack">
      ${decision_note ? html`<p dir="auto">“${line(decision_note, 2000)}”</p>` : null}
      <${Evidence} evidence=${evidence} rule=${rule_id} />
      <${Arguments} args=${edited_args ?? args} />
      ${edited_args ? html`<p class="hint">These arguments were edited by the person who decided.</p>` : null}
      ${thread_id ? html`<p><a href=${to("chat", [suffixOf(thread_id)])}>Open the thread</a></p>` : null}
    </div>
  </details>`;
}

/** The questions of durable runs that wait. */
function Questions() {
  const [questions, setQuestions] = useState([]);
  const read = async () => {
    if (!may("GET /runs")) return;
    const { items } = await call("GET /runs", { status: "waiting", limit: questionsMax });
    const found = await Promise.all(
      items
        .filter(({ thread_id }) => thread_id !== null)
        .map(async ({ thread_id, manifest_id }) => {
          const { openQuestions = [] } = await call("GET /chat/sessions/{thread_id}", {
            thread_id: suffixOf(thread_id),
          });
          return openQuestions
            .filter(({ event }) => event === "ui_request")
            .map(({ data }) => ({ ...data, manifest_id }));
        }),
    );
    setQuestions(found.flat());
  };
  useEffect(() => {
    const look = () => void read().catch(() => setQuestions([]));
    look();
    return onNews(({ kind }) => (kind === "run_status" || kind === "reset") && look());
  }, []);
  if (questions.length === 0) return null;
  return html`<div class="stack">
    ${questions.map(
      (question) => html`<div key=${question.request_id} class="inbox-item">
        <p class="inbox-from"><b>${question.manifest_id}</b> asks · <a href=${to("chat", [suffixOf(question.thread_id)])}>open the thread</a></p>
        <${Question} question=${question} onAnswered=${() => setQuestions(questions.filter((each) => each !== question))} />
      </div>`,
    )}
  </div>`;
}
