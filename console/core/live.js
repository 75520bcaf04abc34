import { effect, signal } from "@preact/signals";
import { call, follow } from "./api.js";
import { has, may, phase } from "./session.js";

// News of the server: one stream for the whole tab. They carry no content, so a screen reads what changed. A hidden tab closes the stream,
// because browsers allow six connections to a server, and continues where it stopped when it is shown again.

const route = "GET /events";
const listeners = new Set();

/** How many approvals wait for a person. */
export const waiting = signal(0);

/** `open` while the stream is connected, `lost` while it is tried again, `off` without one. */
export const connection = signal("off");

/** Calls a function with each piece of news: `{kind, …}`; `reset` says that some were missed. Returns a function that stops it. */
export function onNews(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let stop = null;
let cursor;

effect(() => {
  const isOpen = phase.value === "open";
  if (isOpen) {
    void count();
    start();
  } else {
    end();
    cursor = undefined;
  }
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) end();
  else if (phase.value === "open") start();
});

function start() {
  if (stop !== null || document.hidden || !may(route)) return;
  stop = new AbortController();
  void read(stop.signal);
}

function end() {
  stop?.abort();
  stop = null;
  connection.value = "off";
}

async function read(signal) {
  const onState = (state) => {
    connection.value = state;
  };
  try {
    for await (const frame of follow(route, {}, { signal, cursor, onState })) {
      if (frame.id !== undefined) cursor = frame.id;
      // Something may have changed after a screen has read its list and before the stream began.
      if (frame.event === "reset") tell({ kind: "reset" });
      for (const news of frame.data.news ?? []) tell(news);
    }
  } catch {
    connection.value = "off";
  }
}

/** Tells the screens of this tab what it has changed itself. */
export function tell(news) {
  if (news.kind === "approval" || news.kind === "reset") void count();
  for (const listener of listeners) listener(news);
}

/** Counts the approvals that wait. */
async function count() {
  if (!has("GET /approvals") || !may("GET /approvals")) return;
  const { items = [] } = await call("GET /approvals", { status: "pending", limit: 100 }).catch(() => ({}));
  waiting.value = items.length;
}

/** Counts the waiting approvals again, after this tab has decided one. */
export const recount = count;
