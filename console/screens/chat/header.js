import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { html } from "../../core/html.js";
import { go, to } from "../../core/router.js";
import { has, may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { saveExport } from "../../parts/export.js";
import { Icon } from "../../parts/icon.js";
import { Menu } from "../../parts/menu.js";
import { attempt } from "../../parts/toast.js";

const phases = {
  turn: "running",
  compaction: "compacting",
  retry: "continuing",
  branch_summary: "summing up",
  aborted: "stopped",
};

/** Returns the state of a live turn. */
function statusOf({ runStatus = "running", blocks }) {
  const isAsking = blocks.some(({ type, state }) => state === "approval" || (type === "question" && state === "open"));
  return isAsking && runStatus === "running" ? "waiting for you" : runStatus;
}

/** The name of the thread, its agent and state, and what can be done with it. */
export function Header({ thread, agents, manifest, choose, isNew, open, fork, mayWrite }) {
  const { name, phase, permissionMode, activeRun } = thread.facts.value;
  const [isRenaming, setRenaming] = useState(false);
  const [isErasing, setErasing] = useState(false);
  const isBusy = thread.isBusy.value;
  const first = thread.entries.value.find(({ type }) => type === "user");
  const title =
    name ??
    (first
      ? first.text.slice(0, 60)
      : thread.pending.value
        ? thread.pending.value.text.slice(0, 60)
        : "New conversation");
  const isStored = thread.entries.value.length > 0;
  const erase = async () => {
    if (
      (await attempt(() => call("DELETE /chat/history/{thread_id}", { thread_id: thread.id }), "Deleted")) !== undefined
    )
      go(to("chat"));
  };
  const items = [
    isStored && mayWrite && { icon: "edit", label: "Rename", act: () => setRenaming(true) },
    isStored && mayWrite && { icon: "fork", label: "Fork", act: () => fork(null) },
    isStored && { icon: "tree", label: "Branches", act: () => open("tree") },
    { icon: "code", label: "Copy as curl", act: () => open("curl") },
    isStored && {
      icon: "download",
      label: "Export",
      act: () =>
        attempt(() =>
          saveExport("GET /chat/sessions/{thread_id}/export", { thread_id: thread.id }, `${thread.id}.ndjson`),
        ),
    },
    isStored && mayWrite && !isBusy && { icon: "trash", label: "Delete", act: () => setErasing(true) },
  ].filter(Boolean);
  return html`<header class="chat-header">
    ${
      isRenaming
        ? html`<form
          class="rename"
          onSubmit=${(event) => {
            event.preventDefault();
            setRenaming(false);
            void attempt(() => thread.rename(event.target.elements.name.value));
          }}
        >
          <input name="name" aria-label="Name of the thread" value=${name ?? title} maxlength="200" autofocus />
          <button class="primary">Save</button>
          <button type="button" class="ghost" onClick=${() => setRenaming(false)}>Cancel</button>
        </form>`
        : html`<h1 dir="auto" title=${title}>${title}</h1>`
    }
    <span class="chips">
      ${isBusy || phases[phase] ? html`<span class=${`chip ${isBusy ? "live" : ""}`}>${isBusy ? statusOf(thread.live.value) : phases[phase]}</span>` : null}
      ${permissionMode !== undefined && permissionMode !== "default" ? html`<span class="chip warn">${permissionMode}</span>` : null}
    </span>
    ${activeRun && has("GET /runs/{run_id}") && may("GET /runs/{run_id}") ? html`<a class="button ghost" href=${to("run", [activeRun.resumeToken])}><${Icon} name="run" size=${16} /> Run</a>` : null}
    <label class="agent-picker">
      <span class="hidden">Agent</span>
      <select value=${manifest ?? ""} disabled=${isBusy || agents.length === 0} onChange=${(event) => choose(event.target.value)}>
        ${agents.map(({ name: each }) => html`<option value=${each}>${each}</option>`)}
      </select>
    </label>
    ${isNew && !isStored ? null : html`<a class="button new-chat" href=${to("chat")} aria-label="New conversation" title="New conversation"><${Icon} name="plus" size=${16} /></a>`}
    <${Menu} label="Thread" items=${items} />
    ${
      isErasing
        ? html`<${Confirm} title="Delete this thread?" text="Its messages, files and runs are deleted for everybody. This cannot be undone." action="Delete" close=${() => setErasing(false)} confirm=${erase} />`
        : null
    }
  </header>`;
}
