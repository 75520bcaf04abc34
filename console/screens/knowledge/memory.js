import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, line, moment, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages, useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const searchWaitMs = 300;

/** What agents remember: search, forget, restore. */
export function Memory({ tabs }) {
  const [text, setText] = useState("");
  const [query, setQuery] = useState("");
  const [manifest, setManifest] = useState("");
  const [status, setStatus] = useState("active");
  const [forgotten, setForgotten] = useState([]);
  const pages = usePages("GET /memory", { limit: 100, manifest_id: manifest, status });
  useEffect(() => {
    const timer = setTimeout(() => setQuery(text.trim()), searchWaitMs);
    return () => clearTimeout(timer);
  }, [text]);
  const forget = async (memory) => {
    if ((await attempt(() => call("DELETE /memory/{memory_id}", { memory_id: memory.id }), "Forgotten")) === undefined)
      return;
    setForgotten([memory.id, ...forgotten]);
  };
  const restore = async (memory) => {
    if (
      (await attempt(() => call("POST /memory/{memory_id}/restore", { memory_id: memory.id }), "Restored")) ===
      undefined
    )
      return;
    setForgotten(forgotten.filter((each) => each !== memory.id));
    pages.reload();
  };
  const row = (memory) =>
    html`<${Row} memory=${memory} isForgotten=${forgotten.includes(memory.id) || memory.status === "forgotten"} forget=${forget} restore=${restore} />`;
  return html`<${Page}
    title="Knowledge"
    filters=${html`${tabs}
      <label class="search"><span class="hidden">Search in memory</span><${Icon} name="search" size=${16} /><input type="search" placeholder="Search in memory" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <select aria-label="Status" value=${status} onChange=${(event) => setStatus(event.target.value)}>
        <option value="active">Active</option><option value="superseded">Superseded</option><option value="forgotten">Forgotten</option>
      </select>
      <input aria-label="Agent" placeholder="Agent" value=${manifest} onChange=${(event) => setManifest(event.target.value.trim())} />`}
  >
    ${
      query !== ""
        ? html`<${Hits} query=${query} manifest=${manifest} row=${row} />`
        : html`<${PagesList}
          pages=${pages}
          keyOf=${({ id }) => id}
          row=${row}
          label="Memories"
          estimate=${74}
          empty=${html`<${Empty} icon="brain" title="Nothing is remembered">Agents with <code>memory</code> in their manifest keep facts here.<//>`}
        />`
    }
  <//>`;
}

function Row({ memory, isForgotten, forget, restore }) {
  const { content, kind, manifest_id, thread_id, created_at, last_used_at, status, importance, metadata = {} } = memory;
  const taint = [metadata.taint ?? []].flat();
  return html`<div class=${`row ${isForgotten ? "forgotten" : ""}`}>
    <span class="row-main">
      <span dir="auto">${line(content, 600)}</span>
      <small>
        ${manifest_id} · ${metadata.source ?? "agent"}${metadata.principal ? `, ${metadata.principal}` : ""} · <span title=${moment(created_at)}>${ago(created_at)}</span>
        ${last_used_at ? html` · used ${ago(last_used_at)}` : null}
        ${thread_id ? html` · <a href=${to("chat", [suffixOf(thread_id)])}>thread</a>` : null}
      </small>
    </span>
    <span class="chips">
      <span class="chip">${kind}</span>
      ${importance === undefined ? null : html`<span class="chip" title="Importance">${importance}</span>`}
      ${status !== "active" && !isForgotten ? html`<span class="chip warn">${status}</span>` : null}
      ${taint.map((each) => html`<span class="chip bad" title="This memory comes from text of outside">from ${each}</span>`)}
    </span>
    ${
      !may("DELETE /memory/{memory_id}")
        ? null
        : isForgotten
          ? html`<button type="button" class="small" onClick=${() => restore(memory)}><${Icon} name="rewind" size=${14} /> Restore</button>`
          : html`<button type="button" class="small ghost" onClick=${() => forget(memory)}><${Icon} name="trash" size=${14} /> Forget</button>`
    }
  </div>`;
}

function Hits({ query, manifest, row }) {
  const { data, error, reload } = useResource("GET /memory/search", { q: query, manifest_id: manifest, limit: 50 });
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Searching" />`;
  if (data.items.length === 0) return html`<${Empty} title="No memory matches">Other words may help.<//>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Memories that match">${data.items.map((hit) => row({ status: "active", ...hit }))}</div>`;
}
