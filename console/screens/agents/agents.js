import { useEffect } from "preact/hooks";
import { ago } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { go, place, to } from "../../core/router.js";
import { has, may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Choice, Page } from "../../parts/page.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { Editor } from "./editor.js";
import { Overview } from "./overview.js";
import { Tools } from "./tools.js";
import { Versions } from "./versions.js";

const first = {
  metadata: { name: "my-agent", description: "" },
  spec: { system_prompt: { inline: "" }, tools: ["calculator"] },
};

/** The manifests: what each may do, its versions, its canary and the tools of its MCP servers. */
export function Screen() {
  const { parts, query } = place.value;
  const list = useResource("GET /manifests");
  useEffect(() => onNews(({ kind }) => (kind === "manifest" || kind === "reset") && list.reload()), []);
  const items = list.data?.items ?? [];
  const name = parts[0];
  const isNew = name === undefined && query.has("new");
  useEffect(() => {
    if (name === undefined && !isNew && items.length > 0 && matchMedia("(min-width: 60rem)").matches)
      go(to("agents", [items[0].name]), { replace: true });
  }, [name, isNew, items.length]);
  const saved = (stored) => {
    list.reload();
    go(to("agents", [stored]));
  };
  return html`<${Page}
    title="Agents"
    tools=${
      has("PUT /manifests/{name}") && may("PUT /manifests/{name}")
        ? html`<a class="button primary" href=${to("agents", [], { new: 1 })}><${Icon} name="plus" size=${16} /> New agent</a>`
        : null
    }
  >
    ${
      list.error
        ? html`<${Failed} error=${list.error} retry=${list.reload} />`
        : list.data === null
          ? html`<${Loading} label="Reading the agents" />`
          : html`<div class=${`split ${name !== undefined || isNew ? "split-open" : ""}`}>
            <nav class="split-list" aria-label="Agents">
              <ul>${items.map((item) => html`<${Item} key=${item.name} item=${item} isCurrent=${item.name === name} />`)}</ul>
            </nav>
            <div class="split-body" tabindex="0" role="region" aria-label="Agent">
              ${
                isNew
                  ? html`<${Editor} name="" manifest=${first} onSaved=${saved} />`
                  : name === undefined
                    ? html`<${Empty} icon="agents" title="Choose an agent" />`
                    : html`<${Agent} key=${name} name=${name} item=${items.find((each) => each.name === name)} onChanged=${list.reload} />`
              }
            </div>
          </div>`
    }
  <//>`;
}

function Item({ item, isCurrent }) {
  const { name, version, source, valid, canary_version, updated_at } = item;
  return html`<li>
    <a href=${to("agents", [name])} aria-current=${isCurrent ? "page" : undefined}>
      <b class="break">${name}</b>
      <small>
        ${version === null || version === undefined ? source : `version ${version}, ${ago(updated_at)}`}
        ${valid === false ? html` <span class="chip bad">does not load</span>` : null}
        ${canary_version ? html` <span class="chip warn">canary ${canary_version}</span>` : null}
      </small>
    </a>
  </li>`;
}

function Agent({ name, item, onChanged }) {
  const tab = place.value.query.get("tab") ?? "overview";
  const isStored = item?.source === "store";
  // A stored version is the text as its author wrote it, without the defaults.
  const current = useResource("GET /manifests/{name}", { name, version: isStored ? item.version : undefined });
  const changed = () => {
    onChanged();
    current.reload();
  };
  const tabs = [
    ["overview", "What it may do"],
    ["versions", "Versions"],
    ["editor", may("PUT /manifests/{name}") && has("PUT /manifests/{name}") ? "Edit" : "Manifest"],
    ["tools", "MCP tools"],
  ].filter(([each]) => each !== "versions" || isStored);
  return html`<div class="stack">
    <div class="buttons">
      <a class="button ghost icon-button split-back" href=${to("agents")} aria-label="All agents"><${Icon} name="left" size=${16} /></a>
      <h2 class="break">${name}</h2>
      <span class="chip">${item?.source ?? "gone"}</span>
      ${may("POST /chat/stream") ? html`<a class="button small" href=${to("chat", [], { manifest: name })}><${Icon} name="chat" size=${14} /> Talk to it</a>` : null}
    </div>
    ${item?.problems ? html`<p class="banner bad" role="alert"><span>${item.problems.join("; ")}</span></p>` : null}
    <${Choice} label="Part" options=${tabs} value=${tab} choose=${(next) => go(to("agents", [name], { tab: next }))} />
    ${
      current.error
        ? html`<${Failed} error=${current.error} retry=${current.reload} />`
        : current.data === null
          ? html`<${Loading} label="Reading the manifest" />`
          : tab === "overview"
            ? html`<${Overview} name=${name} manifest=${current.data.manifest} />`
            : tab === "versions"
              ? html`<${Versions} name=${name} item=${item} onChanged=${changed} />`
              : tab === "editor"
                ? html`<${Editor} key=${current.data.version ?? "source"} name=${name} manifest=${current.data.manifest} onSaved=${changed} />`
                : html`<${Tools} name=${name} />`
    }
  </div>`;
}
