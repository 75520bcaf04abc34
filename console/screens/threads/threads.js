import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, line, moment, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { usePages, useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { saveExport } from "../../parts/export.js";
import { Icon } from "../../parts/icon.js";
import { Menu } from "../../parts/menu.js";
import { Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const searchWaitMs = 250;

/** All threads of the tenant: search, filter, open, export, delete. */
export function Screen() {
  const [text, setText] = useState("");
  const [query, setQuery] = useState("");
  const [manifest, setManifest] = useState("");
  const pages = usePages("GET /chat/sessions", { limit: 100 });
  useEffect(() => {
    const timer = setTimeout(() => setQuery(text.trim()), searchWaitMs);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => onNews(({ kind }) => (kind === "thread" || kind === "reset") && pages.reload()), []);
  const names = [...new Set(pages.items.map(({ manifest: each }) => each).filter(Boolean))].sort();
  const shown = manifest === "" ? pages.items : pages.items.filter((each) => each.manifest === manifest);
  const remove = (id) => pages.set((items) => items.filter((each) => each.id !== id));
  return html`<${Page}
    title="Threads"
    tools=${may("POST /chat/stream") ? html`<a class="button primary" href=${to("chat")}><${Icon} name="plus" size=${16} /> New conversation</a>` : null}
    filters=${html`
      <label class="search"><span class="hidden">Search in messages</span><${Icon} name="search" size=${16} />
        <input type="search" placeholder="Search in messages" value=${text} onInput=${(event) => setText(event.target.value)} />
      </label>
      <select aria-label="Agent" value=${manifest} onChange=${(event) => setManifest(event.target.value)}>
        <option value="">All agents</option>
        ${names.map((name) => html`<option value=${name}>${name}</option>`)}
      </select>
    `}
  >
    ${
      query === ""
        ? html`<${PagesList}
          pages=${pages}
          items=${shown}
          keyOf=${({ id }) => id}
          row=${(thread) => html`<${Row} thread=${thread} onDeleted=${() => remove(thread.id)} />`}
          label="Threads"
          estimate=${68}
          empty=${html`<${Empty} icon="threads" title="No threads here">A thread appears with its first message.<//>`}
        />`
        : html`<${Hits} query=${query} />`
    }
  <//>`;
}

function Row({ thread, onDeleted }) {
  const [isErasing, setErasing] = useState(false);
  const { id, sessionName, preview, manifest, createdAt, updatedAt, parentSessionId } = thread;
  const suffix = suffixOf(id);
  const erase = async () => {
    if ((await attempt(() => call("DELETE /chat/history/{thread_id}", { thread_id: suffix }), "Deleted")) !== undefined)
      onDeleted();
  };
  const items = [
    {
      icon: "download",
      label: "Export",
      act: () =>
        attempt(() => saveExport("GET /chat/sessions/{thread_id}/export", { thread_id: suffix }, `${suffix}.ndjson`)),
    },
    ...(may("DELETE /chat/history/{thread_id}")
      ? [{ icon: "trash", label: "Delete", act: () => setErasing(true) }]
      : []),
  ];
  return html`<div class="row">
    <a class="row-main" href=${to("chat", [suffix])}>
      <b dir="auto">${line(sessionName ?? preview ?? suffix, 140)}</b>
      <small>${parentSessionId ? html`<${Icon} name="fork" size=${12} label="Fork" /> ` : null}<code>${suffix}</code></small>
    </a>
    <span class="chip">${manifest ?? "no agent"}</span>
    <time class="row-time" title=${`Created ${moment(createdAt)}`}>${ago(updatedAt || createdAt)}</time>
    <${Menu} label=${`Actions for ${line(sessionName ?? preview ?? suffix, 40)}`} items=${items} />
    ${
      isErasing
        ? html`<${Confirm} title="Delete this thread?" text="Its messages, files and runs are deleted for everybody. This cannot be undone." action="Delete" close=${() => setErasing(false)} confirm=${erase} />`
        : null
    }
  </div>`;
}

function Hits({ query }) {
  const { data, error, reload } = useResource("GET /chat/sessions/search", { q: query, limit: 100 });
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Searching" />`;
  if (data.hits.length === 0)
    return html`<${Empty} title="No message matches">Other words may help. The search finds whole words.<//>`;
  return html`<ul class="scroll" tabindex="0" aria-label="Messages that match">
    ${data.hits.map(
      ({ thread_id, content, event_id }) => html`<li key=${event_id} class="row">
        <a class="row-main" href=${to("chat", [suffixOf(thread_id)])}>
          <span dir="auto">${around(content, query)}</span>
          <small><code>${suffixOf(thread_id)}</code></small>
        </a>
      </li>`,
    )}
  </ul>`;
}

/** The part of a text around the first word of a query. */
function around(content, query) {
  const at = content.toLowerCase().indexOf(query.split(/\s+/)[0].toLowerCase());
  const start = Math.max(0, at - 80);
  return `${start > 0 ? "…" : ""}${line(content.slice(start), 260)}`;
}
