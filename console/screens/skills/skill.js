import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { go, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { Page } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { Evaluations } from "./evaluations.js";
import { Version } from "./version.js";

/** One skill: its versions, the chosen one with its review, and its evaluations. */
export function Skill({ name, version }) {
  const [isDeleting, setDeleting] = useState(false);
  const { data, error, reload } = useResource("GET /skill-library/{name}", { name });
  const remove = async () => {
    if ((await attempt(() => call("DELETE /skill-library/{name}", { name }), "Deleted")) !== undefined)
      go(to("skills", [], { tab: "library" }));
  };
  const back = html`<a class="button ghost icon-button" href=${to("skills")} aria-label="All skills"><${Icon} name="left" size=${16} /></a>`;
  const tools = html`${back}
    ${
      may("DELETE /skill-library/{name}")
        ? html`<button type="button" class="danger-soft" onClick=${() => setDeleting(true)}><${Icon} name="trash" size=${16} /> Delete</button>`
        : null
    }`;
  if (error) return html`<${Page} title=${name} tools=${back}><${Failed} error=${error} retry=${reload} /><//>`;
  if (data === null) return html`<${Page} title=${name} tools=${back}><${Loading} label="Reading the skill" /><//>`;
  const { versions, live_version } = data;
  const chosen = versions.find((each) => each.version === version) ?? versions[0];
  return html`<${Page} title=${name} tools=${tools} about=${live_version ? `Version ${live_version} is live` : "No version is live"}>
    <div class="scroll stack" tabindex="0" role="region" aria-label="Skill">
      <nav class="buttons" aria-label="Versions">
        ${versions.map(
          (
            each,
          ) => html`<a key=${each.version} class="button small" href=${to("skills", [name, each.version])} aria-current=${each === chosen ? "page" : undefined} title=${`${each.author}, ${ago(each.created_at)}`}>
            ${each.version} <span class=${`chip ${each.status === "live" ? "good" : each.status === "draft" ? "warn" : ""}`}>${each.status}</span>
          </a>`,
        )}
      </nav>
      ${
        chosen
          ? html`<${Version} key=${`${chosen.version} ${chosen.status}`} name=${name} version=${chosen} live=${live_version} onChanged=${reload} />
            <${Evaluations} key=${chosen.version} name=${name} version=${chosen.version} />`
          : null
      }
    </div>
    ${isDeleting ? html`<${Confirm} title="Delete this skill?" text="It leaves every catalog, and all its versions are archived." action="Delete" close=${() => setDeleting(false)} confirm=${remove} />` : null}
  <//>`;
}
