import { html } from "../../core/html.js";
import { go, place, to } from "../../core/router.js";
import { has, may } from "../../core/session.js";
import { Choice } from "../../parts/page.js";
import { Documents } from "./documents.js";
import { Memory } from "./memory.js";

/** What agents know: the documents that they search, and what they remember. */
export function Screen() {
  const tab = place.value.query.get("tab") ?? "documents";
  const hasMemory = has("GET /memory") && may("GET /memory");
  const tabs = hasMemory
    ? html`<${Choice} label="Kind of knowledge" options=${[["documents", "Documents"], ["memory", "Memory"]]} value=${tab} choose=${(next) => go(to("knowledge", [], { tab: next }))} />`
    : null;
  return tab === "documents" ? html`<${Documents} tabs=${tabs} />` : html`<${Memory} tabs=${tabs} />`;
}
