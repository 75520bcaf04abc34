import { useEffect } from "preact/hooks";
import { ago, line, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { Icon } from "../../parts/icon.js";

/** The threads that were used last, beside the conversation on a wide page. */
export function Recent({ current }) {
  const { data, reload } = useResource("GET /chat/sessions", { limit: 30 });
  useEffect(() => onNews(({ kind }) => (kind === "thread" || kind === "reset") && reload()), []);
  useEffect(reload, [current]);
  return html`<aside class="recent" aria-label="Recent threads">
    <a class="button wide" href=${to("chat")}><${Icon} name="plus" size=${16} /> New conversation</a>
    <ul>
      ${(data?.items ?? []).map(({ id, sessionName, preview, manifest, updatedAt }) => {
        const suffix = suffixOf(id);
        return html`<li key=${id}>
          <a href=${to("chat", [suffix])} aria-current=${suffix === current ? "page" : undefined}>
            <span class="recent-title" dir="auto">${line(sessionName ?? preview ?? suffix, 60)}</span>
            <small>${manifest ?? ""} · ${ago(updatedAt)}</small>
          </a>
        </li>`;
      })}
    </ul>
  </aside>`;
}
