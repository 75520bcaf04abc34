import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, count, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages, useResource } from "../../core/resource.js";
import { may } from "../../core/session.js";
import { Confirm, Dialog } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt, toast } from "../../parts/toast.js";

const searchWaitMs = 300;
/** The server's limit of a body bounds a text; larger files are refused before they are read. */
const fileBytesMax = 900_000;

/** The documents that agents search. */
export function Documents({ tabs }) {
  const [text, setText] = useState("");
  const [query, setQuery] = useState("");
  const [isAdding, setAdding] = useState(null);
  const pages = usePages("GET /documents", { limit: 100 });
  useEffect(() => {
    const timer = setTimeout(() => setQuery(text.trim()), searchWaitMs);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<${Page}
    title="Knowledge"
    tools=${may("POST /documents") ? html`<button type="button" class="primary" onClick=${() => setAdding({})}><${Icon} name="upload" size=${16} /> Add a document</button>` : null}
    filters=${html`${tabs}<label class="search"><span class="hidden">Search in documents</span><${Icon} name="search" size=${16} /><input type="search" placeholder="Search as an agent does" value=${text} onInput=${(event) => setText(event.target.value)} /></label>`}
  >
    ${
      query !== ""
        ? html`<${Hits} query=${query} />`
        : html`<${PagesList}
          pages=${pages}
          keyOf=${({ doc_id }) => doc_id}
          row=${(document) => html`<${Row} document=${document} onDeleted=${() => pages.set((items) => items.filter((each) => each !== document))} />`}
          label="Documents"
          estimate=${66}
          empty=${html`<${Empty} icon="knowledge" title="No document yet">Agents with <code>search_documents</code> find what you add here, and name it as a source.<//>`}
        />`
    }
    ${isAdding ? html`<${Add} close=${() => setAdding(null)} onAdded=${pages.reload} />` : null}
  <//>`;
}

function Row({ document, onDeleted }) {
  const [isDeleting, setDeleting] = useState(false);
  const { doc_id, title, source, chunks, chars, updated_at } = document;
  const remove = async () => {
    if ((await attempt(() => call("DELETE /documents/{doc_id}", { doc_id }), "Deleted")) !== undefined) onDeleted();
  };
  return html`<div class="row">
    <span class="row-main"><b dir="auto">${title}</b><small class="break">${source || "no source"}</small></span>
    <span class="row-time">${count(chunks)} ${chunks === 1 ? "part" : "parts"} · ${count(chars)} characters · ${ago(updated_at)}</span>
    ${may("DELETE /documents/{doc_id}") ? html`<button type="button" class="ghost icon-button" aria-label=${`Delete ${title}`} onClick=${() => setDeleting(true)}><${Icon} name="trash" size=${16} /></button>` : null}
    ${isDeleting ? html`<${Confirm} title="Delete this document?" text="Agents no longer find it. This cannot be undone." action="Delete" close=${() => setDeleting(false)} confirm=${remove} />` : null}
  </div>`;
}

function Hits({ query }) {
  const { data, error, reload } = useResource("GET /documents/search", { q: query, limit: 20 });
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Searching" />`;
  if (data.items.length === 0) return html`<${Empty} title="No part matches">Other words may help.<//>`;
  return html`<ul class="scroll stack" tabindex="0" aria-label="Parts that match">
    ${data.items.map(
      ({
        doc_id,
        title,
        source,
        content,
        chunk_index,
        score,
        channels,
      }) => html`<li key=${`${doc_id} ${chunk_index}`} class="panel">
        <div class="buttons"><b dir="auto">${title}</b><small class="break">${source}</small><span class="chip">part ${chunk_index + 1}</span><span class="chip" title=${channels.join(", ")}>score ${score.toFixed(3)}</span></div>
        <p class="plain-text" dir="auto">${line(content, 900)}</p>
      </li>`,
    )}
  </ul>`;
}

function Add({ close, onAdded }) {
  const [fields, setFields] = useState({ title: "", source: "", text: "" });
  const [isBusy, setBusy] = useState(false);
  const picker = useRef(null);
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.value });
  const take = async (file) => {
    if (!file) return;
    if (file.size > fileBytesMax) return toast(`${file.name} is larger than ${count(fileBytesMax)} bytes`, "error");
    const text = await file.text();
    if (text.includes("\u0000")) return toast(`${file.name} is not a text file`, "error");
    setFields({ title: fields.title || file.name.replace(/\.[^.]+$/, ""), source: file.name, text });
  };
  const add = async (event) => {
    event.preventDefault();
    setBusy(true);
    const added = await attempt(() => call("POST /documents", fields));
    setBusy(false);
    if (!added) return;
    toast(`Added ${fields.title}`);
    close();
    onAdded();
  };
  return html`<${Dialog} title="Add a document" close=${close} wide>
    <form class="stack" onSubmit=${add}>
      <div class="buttons">
        <button type="button" onClick=${() => picker.current.click()}><${Icon} name="upload" size=${16} /> Choose a text file</button>
        <input ref=${picker} type="file" accept=".txt,.md,.csv,.json,.yaml,.yml,.html,text/*" hidden onChange=${(event) => void take(event.target.files[0])} />
        <span class="hint">or write the text below</span>
      </div>
      <label>Title<input class="wide" required maxlength="500" value=${fields.title} onInput=${set("title")} /></label>
      <label>Source<input class="wide" maxlength="2000" placeholder="File name or address" value=${fields.source} onInput=${set("source")} /></label>
      <label>Text<textarea rows="10" required value=${fields.text} onInput=${set("text")}></textarea></label>
      <p class="hint">A document with the same title and source is replaced.</p>
      <div class="buttons"><button class="primary" disabled=${isBusy || fields.title === "" || fields.text === ""}>${isBusy ? "Adding…" : "Add"}</button></div>
    </form>
  <//>`;
}
