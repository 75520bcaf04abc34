import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { takeOver } from "../../core/hand-over.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { go, place, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { VirtualList } from "../../parts/virtual.js";
import { Composer } from "./composer.js";
import { CurlDialog } from "./curl.js";
import { Entry } from "./entry.js";
import { Header } from "./header.js";
import { Recent } from "./recent.js";
import { newThreadId, Thread } from "./thread.js";
import { Todos } from "./todos.js";
import { TreeDialog } from "./tree-dialog.js";
import { Welcome } from "./welcome.js";

const lastManifest = "svc.manifest";

/** A conversation with an agent. Without a thread in the address it is a new one. */
export function Screen() {
  const { parts, query } = place.value;
  const [fresh, setFresh] = useState(newThreadId);
  const id = parts[0] ?? fresh;
  const isNew = parts[0] === undefined || query.has("new");
  const wasOpen = useRef(parts[0] !== undefined);
  useEffect(() => {
    // Another thread was shown before: its successor is a new one.
    if (parts[0] === undefined && wasOpen.current) setFresh(newThreadId());
    wasOpen.current = parts[0] !== undefined;
  }, [parts[0] === undefined]);
  return html`<${Conversation} key=${id} id=${id} isNew=${isNew} asked=${query.get("manifest")} />`;
}

function Conversation({ id, isNew, asked }) {
  const thread = useMemo(() => new Thread(id, isNew), [id]);
  useEffect(() => () => thread.close(), [thread]);
  const models = useResource("GET /v1/models");
  const agents = useMemo(
    () =>
      (models.data?.data ?? []).map(({ id: name, description, svc = {} }) => ({
        name,
        ...svc,
        description: svc.description ?? description,
      })),
    [models.data],
  );
  const [chosen, setChosen] = useState(asked);
  const [dialog, setDialog] = useState(null);
  const [draft, setDraft] = useState(takeOver);
  const names = agents.map(({ name }) => name);
  const remembered = recallManifest();
  const manifest =
    [chosen, thread.facts.value.manifest, remembered, "quick", names[0]].find((name) => name && names.includes(name)) ??
    null;
  const agent = agents.find(({ name }) => name === manifest);
  const mayWrite = may("POST /chat/stream");

  const choose = (name) => {
    setChosen(name);
    keepManifest(name);
  };
  const sent = () => {
    if (isNew) go(to("chat", [id], { new: 1 }), { replace: true });
  };
  const fork = async (eventId) => {
    const suffix = await attempt(() => thread.fork(eventId), "Forked into a new thread");
    if (suffix) go(to("chat", [suffix]));
  };
  const rewind = (eventId) => attempt(() => thread.rewind(eventId), "Rewound");
  const edit = async (entry) => {
    if (entry.event.parentId === null) go(to("chat"));
    else if ((await rewind(entry.event.parentId)) === undefined) return;
    setDraft({ text: entry.text });
  };
  const isBusy = thread.isBusy.value;
  const actions = {
    ...(mayWrite &&
      !isBusy && { fork, rewind, edit, rate: (event, rating) => attempt(() => thread.rate(event, rating)) }),
    ratingOf: (event) => thread.facts.value.feedback[event]?.rating,
  };

  return html`<div class="chat">
    <${Recent} current=${id} />
    <section class="conversation" aria-label="Conversation">
      <${Header} thread=${thread} agents=${agents} manifest=${manifest} choose=${choose} isNew=${isNew} open=${setDialog} fork=${fork} mayWrite=${mayWrite} />
      <${Body} thread=${thread} actions=${actions} agent=${agent} models=${models} setDraft=${(text) => setDraft({ text })} />
      <${Todos} todos=${thread.todos.value} />
      <${Problem} thread=${thread} mayWrite=${mayWrite} />
      <${Composer} thread=${thread} manifest=${manifest} draft=${draft} onSent=${sent} mayWrite=${mayWrite} />
    </section>
    ${dialog === "curl" ? html`<${CurlDialog} thread=${thread} manifest=${manifest} close=${() => setDialog(null)} />` : null}
    ${dialog === "tree" ? html`<${TreeDialog} thread=${thread} rewind=${rewind} fork=${fork} close=${() => setDialog(null)} />` : null}
  </div>`;
}

function Body({ thread, actions, agent, models, setDraft }) {
  if (thread.state.value === "loading") return html`<div class="fill"><${Loading} label="Reading the thread" /></div>`;
  if (thread.state.value === "failed")
    return html`<div class="fill"><${Failed} error=${thread.error.value} retry=${() => thread.load()} /></div>`;
  const rows = rowsOf(thread, actions);
  if (rows.length === 0) return html`<${Welcome} agent=${agent} models=${models} choose=${setDraft} />`;
  return html`<${VirtualList}
    items=${rows}
    keyOf=${({ key }) => key}
    row=${(entry) => html`<${Entry} entry=${entry} actions=${actions} settle=${(id, change) => thread.settle(id, change)} />`}
    estimate=${140}
    label="Messages"
    className="messages"
    sticky
    start=${thread.id + (thread.pending.value?.text ?? "")}
  />`;
}

/** Returns the stored entries, then the message that was sent, then the live turn. */
function rowsOf(thread, actions) {
  const tree = thread.tree.value;
  const stored = thread.entries.value.map((entry, at, all) => {
    if (entry.type !== "user") return { ...entry, isLeaf: at === all.length - 1 };
    const siblings = tree.siblings(entry.event);
    if (siblings.length < 2 || !actions.rewind) return entry;
    const place = siblings.indexOf(entry.event);
    const choose = (next) => actions.rewind(tree.endOf(siblings[next]).id);
    return { ...entry, siblings: { at: place, of: siblings.length, choose } };
  });
  const pending = thread.pending.value;
  if (pending !== null) stored.push({ key: "pending", type: "user", isPending: true, ...pending });
  const live = thread.live.value;
  if (live !== null) {
    const before = stored.at(-1);
    if (before?.type === "answer") stored[stored.length - 1] = { ...before, blocks: openBlocks(before.blocks, live) };
    const last = live.blocks.at(-1);
    const isWaiting =
      last === undefined ||
      last.type === "note" ||
      (last.type === "tool" && last.state !== "approval" && last.output !== undefined);
    stored.push({ key: "live", type: "answer", blocks: live.blocks, isLive: true, isWaiting });
  }
  return stored;
}

/** Returns the blocks of a stored answer that the live turn continues: its open calls run, and those of the live turn are shown there. */
function openBlocks(blocks, live) {
  const shown = new Set(live.blocks.map(({ id }) => id).filter(Boolean));
  return blocks
    .filter(({ type, id }) => type !== "tool" || !shown.has(id))
    .map((block) => (block.state === "open" ? { ...block, state: "running" } : block));
}

function Problem({ thread, mayWrite }) {
  const error = thread.error.value;
  const isLost = thread.live.value?.isLost;
  if (isLost)
    return html`<p class="banner" role="status">The connection is lost. The turn continues on the server; the console reconnects…</p>`;
  if (error === null || thread.state.value === "failed") return null;
  const mayResume = mayWrite && error.isTurn === true;
  return html`<div class="banner bad" role="alert">
    <span><b>${titles[error.code] ?? "The turn failed."}</b> ${error.message}</span>
    ${mayResume ? html`<button type="button" onClick=${() => thread.resume()}>Continue</button>` : null}
    <button type="button" class="ghost" onClick=${() => (thread.error.value = null)}>Dismiss</button>
  </div>`;
}

const titles = {
  run_in_progress: "A turn runs in this thread already.",
  budget_exceeded: "The budget is spent.",
  frozen: "This agent is frozen.",
  missing_scopes: "This key may not do that.",
  unknown_manifest: "This agent is gone.",
};

// A browser may deny storage.

function recallManifest() {
  try {
    return localStorage.getItem(lastManifest);
  } catch {
    return null;
  }
}

function keepManifest(name) {
  try {
    localStorage.setItem(lastManifest, name);
  } catch {}
}
