import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { html } from "../../core/html.js";
import { has, may } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Icon } from "../../parts/icon.js";
import { Failed, Loading } from "../../parts/states.js";
import { toast } from "../../parts/toast.js";
import { Plan } from "./overview.js";

const checkWaitMs = 500;

/** The manifest as a text that is checked by the server while a person writes, and what a saved version would change. */
export function Editor({ name, manifest, onSaved }) {
  const code = useRef(null);
  const host = useRef(null);
  const mounted = useRef(null);
  const [failure, setFailure] = useState(null);
  const [text, setText] = useState(null);
  const [comment, setComment] = useState("");
  const [checked, setChecked] = useState({ plan: null, problems: [], isChecking: true });
  const [isBusy, setBusy] = useState(false);
  const turn = useRef(0);
  const mayWrite = has("PUT /manifests/{name}") && may("PUT /manifests/{name}");
  const parsed = text === null ? null : code.current.fromYaml(text);
  const ownName = parsed?.manifest?.metadata?.name ?? name;

  useEffect(() => {
    import("./code-editor.js").then((module) => {
      code.current = { fromYaml: module.fromYaml };
      const first = module.toYaml(manifest);
      if (host.current)
        mounted.current = module.mountEditor(host.current, {
          text: first,
          label: "Manifest as YAML",
          onChange: setText,
        });
      setText(first);
    }, setFailure);
    return () => mounted.current?.remove();
  }, []);

  useEffect(() => {
    if (parsed === null) return;
    const mine = ++turn.current;
    const timer = setTimeout(async () => {
      const result = await check(ownName, parsed);
      if (mine !== turn.current) return;
      setChecked({ ...result, isChecking: false });
      mounted.current?.mark(result.problems);
    }, checkWaitMs);
    setChecked((old) => ({ ...old, isChecking: true }));
    return () => clearTimeout(timer);
  }, [text]);

  const save = async () => {
    setBusy(true);
    try {
      const { version } = await call("PUT /manifests/{name}", { name: ownName, manifest: parsed.manifest, comment });
      toast(`Stored version ${version}`);
      onSaved(ownName);
    } catch (error) {
      setChecked({ plan: null, problems: problemsOf(error), isChecking: false });
    }
    setBusy(false);
  };
  if (!mayWrite) return html`<${Code} text=${manifest} label="Manifest" />`;
  if (failure)
    return html`<${Failed} error=${new Error("The editor could not be loaded. Reload the page.")} retry=${() => location.reload()} />`;
  const { plan, problems, isChecking } = checked;
  return html`
    ${text === null ? html`<${Loading} label="Loading the editor" />` : null}
    <div ref=${host} class="editor"></div>
    <div id="manifest-problems" role="status" class="stack">
      ${
        problems.length > 0
          ? html`<ul class="problems">${problems.map(({ at, text: said }) => html`<li key=${at + said}><${Icon} name="warn" size=${15} /> ${at ? html`<code>${at}</code> ` : null}<span class="break">${said}</span></li>`)}</ul>`
          : html`<p class="hint">${isChecking ? "Checking…" : html`<span class="chip good">valid</span>`}</p>`
      }
    </div>
    <div class="buttons">
      <input class="comment" aria-label="Comment" placeholder="Comment: what changes, and why" maxlength="500" value=${comment} onInput=${(event) => setComment(event.target.value)} />
      <button type="button" class="primary" disabled=${isBusy || problems.length > 0 || isChecking} onClick=${save}>${isBusy ? "Storing…" : `Store ${ownName}`}</button>
    </div>
    ${plan ? html`<${Changes} plan=${plan} /><${Plan} plan=${plan} />` : null}
  `;
}

function Changes({ plan: { changes = [], threads_stopped } }) {
  if (changes.length === 0) return html`<p class="hint">Nothing differs from the active version.</p>`;
  return html`<section class="panel table-box" tabindex="0" aria-label="Changes">
    <h2>What it would change</h2>
    ${threads_stopped > 0 ? html`<p class="problem">${threads_stopped} threads are pinned to another version and would stop.</p>` : null}
    <table class="table">
      <thead><tr><th scope="col">Field</th><th scope="col">Now</th><th scope="col">Then</th></tr></thead>
      <tbody>${changes.map(({ path, before, after }) => html`<tr key=${path}><th scope="row"><code>${path}</code></th><td>${shown(before)}</td><td>${shown(after)}</td></tr>`)}</tbody>
    </table>
  </section>`;
}

function shown(value) {
  if (value === null || value === undefined) return html`<small>not set</small>`;
  return html`<span class="plain-text">${typeof value === "string" ? value : JSON.stringify(value)}</span>`;
}

/** Asks the server what the manifest may do. Returns its plan, or its problems. */
async function check(name, { manifest, problems }) {
  if (manifest === null) return { plan: null, problems };
  if (typeof name !== "string" || name === "")
    return { plan: null, problems: [{ at: "metadata.name", text: "is missing", path: ["metadata"] }] };
  try {
    return { plan: await call("POST /manifests/{name}/plan", { name, manifest }), problems: [] };
  } catch (error) {
    return { plan: null, problems: problemsOf(error) };
  }
}

function problemsOf({ detail, message }) {
  if (!Array.isArray(detail)) return [{ at: "", text: message }];
  return detail.map(({ loc = [], msg }) => {
    const path = loc.filter((part) => part !== "body" && part !== "manifest");
    // Most sentences begin with the field.
    const at = msg.startsWith(String(path[0])) ? "" : path.join(".");
    return { at, text: msg, path };
  });
}
