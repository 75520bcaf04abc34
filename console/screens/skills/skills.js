import { ago, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { usePages } from "../../core/resource.js";
import { go, place, to } from "../../core/router.js";
import { Icon } from "../../parts/icon.js";
import { Choice, Page } from "../../parts/page.js";
import { PagesList } from "../../parts/pages-list.js";
import { Empty } from "../../parts/states.js";
import { Feedback } from "./feedback.js";
import { Marks } from "./marks.js";
import { Skill } from "./skill.js";

const tabs = [
  ["review", "To review"],
  ["library", "All skills"],
  ["feedback", "Feedback"],
];

/** The skill library: drafts to review, all skills, and feedback; or one skill. */
export function Screen() {
  const tab = place.value.query.get("tab") ?? "review";
  const [name, version] = place.value.parts;
  if (name !== undefined) return html`<${Skill} key=${name} name=${name} version=${version} />`;
  return html`<${Page}
    title="Skills"
    about="Instructions that agents load when they need them"
    filters=${html`<${Choice} label="Part" options=${tabs} value=${tab} choose=${(next) => go(to("skills", [], { tab: next }))} />`}
  >
    ${tab === "review" ? html`<${Review} />` : tab === "library" ? html`<${Library} />` : html`<${Feedback} />`}
  <//>`;
}

function Review() {
  const pages = usePages("GET /skill-library/-/review", { limit: 50 });
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ name, version }) => `${name} ${version}`}
    row=${(draft) => html`<${Draft} draft=${draft} />`}
    label="Drafts"
    estimate=${68}
    empty=${html`<${Empty} icon="check" title="No draft waits">A draft of a person or an agent waits here for a decision.<//>`}
  />`;
}

function Draft({ draft }) {
  const { name, version, reason, author, origin_manifest_id, source, created_at, live_version } = draft;
  return html`<div class="row">
    <a class="row-main" href=${to("skills", [name, version])}>
      <b>${name} ${version}</b>
      <small dir="auto">${line(reason, 160) || "no reason given"}</small>
    </a>
    <${Marks} version=${draft} />
    <span class="row-time">${origin_manifest_id ?? author}${source === "operator" ? "" : ` · ${source}`} · ${ago(created_at)} · ${live_version ? `replaces ${live_version}` : "none is live"}</span>
  </div>`;
}

function Library() {
  const pages = usePages("GET /skill-library", { limit: 100 });
  return html`<${PagesList}
    pages=${pages}
    keyOf=${({ name }) => name}
    row=${(skill) => html`<${Row} skill=${skill} />`}
    label="Skills"
    estimate=${60}
    empty=${html`<${Empty} icon="skills" title="No skill yet">A skill is saved with <code>POST /skill-library</code>, or written by an agent with <code>skill_authoring</code>.<//>`}
  />`;
}

function Row({ skill }) {
  const { name, live_version, latest, pending_drafts, updated_at } = skill;
  return html`<div class="row">
    <a class="row-main" href=${to("skills", [name])}><b>${name}</b><small>${latest ? `latest ${latest.version}, ${latest.source}` : ""}</small></a>
    <span class=${`chip ${live_version ? "good" : ""}`}>${live_version ? `live ${live_version}` : "not live"}</span>
    ${pending_drafts > 0 ? html`<span class="chip warn">${pending_drafts} to review</span>` : null}
    <span class="row-time"><${Icon} name="clock" size=${14} /> ${ago(updated_at)}</span>
  </div>`;
}
