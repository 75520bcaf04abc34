import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { count, moment } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages } from "../../core/resource.js";
import { place } from "../../core/router.js";
import { has, may } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Dialog } from "../../parts/dialog.js";
import { saveExport } from "../../parts/export.js";
import { Icon } from "../../parts/icon.js";
import { Facts, Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const dayMs = 86_400_000;
const times = [
  ["", "Any time"],
  ["1", "Last day"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
];

/** The audit record: filter, read, export, and compare with its chain of hashes. */
export function Screen() {
  const { query } = place.value;
  const [filters, setFilters] = useState({
    event_type: query.get("event_type") ?? "",
    status: "",
    manifest_id: query.get("manifest_id") ?? "",
    days: "",
  });
  const [isVerifying, setVerifying] = useState(false);
  const [now] = useState(Date.now);
  const { days, ...asked } = filters;
  const input = { ...asked, ...(days !== "" && { since: now - Number(days) * dayMs }) };
  const pages = usePages("GET /audit", { ...input, limit: 100 });
  const set = (name) => (event) => setFilters({ ...filters, [name]: event.target.value });
  return html`<${Page}
    title="Audit"
    tools=${html`
      ${has("GET /audit/verify") && may("GET /audit/verify") ? html`<button type="button" onClick=${() => setVerifying(true)}><${Icon} name="audit" size=${16} /> Verify</button>` : null}
      <button type="button" onClick=${() => attempt(() => saveExport("GET /audit/export", input, "audit.ndjson"), "Exported")}><${Icon} name="download" size=${16} /> Export</button>
    `}
    filters=${html`
      <input aria-label="Type of event" placeholder="Type, such as tool_call" value=${filters.event_type} onChange=${set("event_type")} />
      <input aria-label="Agent" placeholder="Agent" value=${filters.manifest_id} onChange=${set("manifest_id")} />
      <select aria-label="Status" value=${filters.status} onChange=${set("status")}>
        <option value="">Any status</option>
        <option value="ok">ok</option><option value="error">error</option><option value="denied">denied</option>
      </select>
      <select aria-label="Time" value=${days} onChange=${set("days")}>${times.map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select>
      <button type="button" class="ghost icon-button" aria-label="Refresh" onClick=${pages.reload}><${Icon} name="refresh" size=${16} /></button>
    `}
  >
    <${PagesList}
      pages=${pages}
      keyOf=${({ id }) => id}
      row=${(event) => html`<${Row} event=${event} />`}
      label="Audit events"
      estimate=${46}
      empty=${html`<${Empty} icon="audit" title="No event matches">The record begins with the first request that changes or decides something.<//>`}
    />
    ${isVerifying ? html`<${Verify} close=${() => setVerifying(false)} />` : null}
  <//>`;
}

function Row({ event }) {
  const [isOpen, setOpen] = useState(false);
  const { event_type, status, manifest_id, principal_subj, ts, payload, id } = event;
  const bad = status === "denied" || status === "error";
  return html`<details class="row-details" onToggle=${(each) => setOpen(each.target.open)}>
    <summary class="row">
      <span class="row-main"><b>${event_type}</b></span>
      <span class=${`chip ${bad ? "bad" : "good"}`}>${status}</span>
      <span class="audit-who">${manifest_id ? html`<span class="chip">${manifest_id}</span> ` : null}${principal_subj}</span>
      <time class="row-time">${moment(ts)}</time>
    </summary>
    ${isOpen ? html`<div class="row-inside"><${Code} text=${payload} label="Payload" /><small>event <code>${id}</code></small></div>` : null}
  </details>`;
}

/** Compares all events with the chain of hashes, page by page. */
function Verify({ close }) {
  const [state, setState] = useState(null);
  const [error, setError] = useState(null);
  const start = async () => {
    setState({ pages: 0, seen: 0, isOver: false, missing: [], faults: [], changed: null, unsealed: 0 });
    try {
      let from;
      let all = { pages: 0, missing: [], faults: [], changed: null, unsealed: 0, expired: 0, erased: 0 };
      do {
        const page = await call("GET /audit/verify", { from });
        all = {
          ...{ pages: all.pages + 1, seen: page.to_seq, changed: all.changed ?? page.first_changed, head: page.head },
          ...{ missing: [...all.missing, ...page.missing], faults: [...all.faults, ...page.faults] },
          ...{
            unsealed: page.unsealed ?? all.unsealed,
            expired: all.expired + page.expired,
            erased: all.erased + page.erased,
          },
        };
        from = page.next ?? undefined;
        setState({ ...all, isOver: from === undefined });
      } while (from !== undefined);
    } catch (failure) {
      setError(failure);
    }
  };
  if (state === null && error === null) void start();
  const isGood = state?.isOver && state.changed === null && state.missing.length === 0 && state.faults.length === 0;
  return html`<${Dialog} title="Verify the audit record" close=${close}>
    <p>Each event is part of a chain of hashes. A changed or removed event breaks it.</p>
    ${error ? html`<${Failed} error=${error} />` : null}
    ${state !== null && !state.isOver && error === null ? html`<${Loading} label=${`Compared up to event ${count(state.seen)}`} />` : null}
    ${
      state?.isOver
        ? html`<p class=${`banner ${isGood ? "good" : "bad"}`} role="status"><span><b>${isGood ? "The record is complete and unchanged." : "The record was changed."}</b> ${state.faults.join("; ")}</span></p>
          <${Facts}
            facts=${[
              ["Compared", `${count(state.seen)} events`],
              ["First changed", state.changed ? html`<code>${state.changed.id}</code>` : ""],
              ["Missing", state.missing.length > 0 ? state.missing.join(", ") : ""],
              ["Not sealed yet", count(state.unsealed)],
              ["Removed by retention", state.expired ? count(state.expired) : ""],
              ["Erased", state.erased ? count(state.erased) : ""],
              ["Key", html`<code>${state.head?.key_id}</code>`],
              ["Last hash", html`<code>${state.head?.hash}</code>`],
            ]}
          />
          <p class="hint">Note the last hash elsewhere: it proves later that no event before it is gone.</p>`
        : null
    }
  <//>`;
}
