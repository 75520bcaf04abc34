import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { ago, count } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { may } from "../../core/session.js";
import { Dialog } from "../../parts/dialog.js";
import { Diff } from "../../parts/diff.js";
import { Facts } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { Marks } from "./marks.js";

const reasons = {
  security_scan_failed: "the security scan fails",
  advisory: "the security scan has an advisory finding",
  quality_below_floor: "the quality is below the floor",
  eval_required: "it has no evaluation that counts",
  eval_uplift_below_floor: "its evaluation shows too small an improvement",
  invalid_bundle: "the bundle is invalid",
};

/** A version: who wrote it, what review and scan find now, its files beside the live ones, and the decision. */
export function Version({ name, version: chosen, live, onChanged }) {
  const { version, status, author, origin_manifest_id, source, reason, created_at, decided_by, decision_note } = chosen;
  const preview = useResource("GET /skill-library/{name}/versions/{version}/preview", { name, version });
  const [isRejecting, setRejecting] = useState(false);
  const act = async (what, done, body = {}) => {
    const route = `POST /skill-library/{name}/versions/{version}/${what}`;
    if ((await attempt(() => call(route, { name, version, ...body }), done)) !== undefined) onChanged();
  };
  const mayDecide = may("POST /skill-library/{name}/versions/{version}/publish");
  const isBlocked = preview.data !== null && !preview.data.policy_passes;
  return html`<section class="panel stack" aria-label=${`Version ${version}`}>
    <div class="buttons">
      <h2>Version ${version}</h2>
      <${Marks} version=${chosen} />
      ${
        mayDecide && status === "draft"
          ? html`<button type="button" class="primary" disabled=${isBlocked} onClick=${() => act("publish", `Published ${version}`)}>Publish</button>
            <button type="button" class="danger-soft" onClick=${() => setRejecting(true)}>Reject</button>`
          : null
      }
      ${mayDecide && status === "archived" && chosen.published_at !== null ? html`<button type="button" onClick=${() => act("rollback", `${version} is live again`)}>Roll back to it</button>` : null}
    </div>
    <${Facts} facts=${[
      ["Written by", origin_manifest_id ? `${origin_manifest_id}, for ${author}` : author],
      ["Source", source],
      ["Why", reason],
      ["Saved", ago(created_at)],
      ["Decided by", decided_by],
      ["Note", decision_note],
    ]} />
    ${
      preview.error
        ? html`<${Failed} error=${preview.error} retry=${preview.reload} />`
        : preview.data === null
          ? html`<${Loading} label="Reviewing the version" />`
          : html`<${Findings} found=${preview.data} isDraft=${status === "draft"} />`
    }
    <${Files} name=${name} version=${version} live=${live === version ? null : live} />
    ${isRejecting ? html`<${Reject} close=${() => setRejecting(false)} reject=${(note) => act("reject", `Rejected ${version}`, { note })} />` : null}
  </section>`;
}

function Findings({ found, isDraft }) {
  const { policy_passes, reasons: why, security_issues, review_checks, validation_issues } = found;
  const failed = review_checks.filter(({ passed }) => !passed);
  return html`
    ${isDraft && !policy_passes ? html`<p class="banner bad" role="status"><span>It cannot be published: ${why.map((each) => reasons[each] ?? each).join("; ")}.</span></p>` : null}
    ${[...validation_issues, ...security_issues].length === 0 ? html`<p class="hint">The security scan found nothing.</p>` : null}
    ${
      security_issues.length + validation_issues.length > 0
        ? html`<ul class="stack" aria-label="Findings">
          ${validation_issues.map(({ path, message }) => html`<li><span class="chip bad">invalid</span> <code>${path}</code> ${message}</li>`)}
          ${security_issues.map(({ severity, path, message }) => html`<li><span class=${`chip ${severity === "critical" || severity === "high" ? "bad" : "warn"}`}>${severity}</span> <code class="break">${path}</code> ${message}</li>`)}
        </ul>`
        : null
    }
    ${failed.length > 0 ? html`<details><summary>${failed.length} of ${review_checks.length} checks of quality failed</summary><ul>${failed.map(({ label, message }) => html`<li><b>${label}</b>: ${message}</li>`)}</ul></details>` : null}
  `;
}

const textOf = async (name, version, path) => {
  const { encoding, content } = await call("GET /skill-library/{name}/versions/{version}/files/{path}", {
    ...{ name, version, path },
  });
  return encoding === "utf-8" ? content : `(binary, ${count(content.length)} characters of base64)`;
};

/** A file of a version beside that of the live one. */
function Files({ name, version, live }) {
  const now = useResource("GET /skill-library/{name}/versions/{version}", { name, version });
  const before = useResource(live === null ? null : "GET /skill-library/{name}/versions/{version}", {
    ...{ name, version: live },
  });
  const [path, setPath] = useState("SKILL.md");
  const [texts, setTexts] = useState({ before: "", after: "", error: null, path: null });
  const shaOf = (files, of) => files?.find((each) => each.path === of)?.sha256;
  const isRead = now.data !== null && (live === null || before.data !== null);
  useEffect(() => {
    if (!isRead) return;
    const read = async (files, of) => (shaOf(files, path) === undefined ? "" : textOf(name, of, path));
    Promise.all([read(before.data?.files, live), read(now.data.files, version)]).then(
      ([old, text]) => setTexts({ before: old, after: text, error: null, path }),
      (error) => setTexts({ before: "", after: "", error, path }),
    );
  }, [isRead, path]);
  if (now.error) return html`<${Failed} error=${now.error} retry=${now.reload} />`;
  if (!isRead) return html`<${Loading} label="Reading the files" />`;
  const paths = [...new Set([...now.data.files, ...(before.data?.files ?? [])].map((each) => each.path))].sort();
  const markOf = (each) => {
    const [old, next] = [shaOf(before.data?.files, each), shaOf(now.data.files, each)];
    return live === null || old === next
      ? ""
      : old === undefined
        ? " (new)"
        : next === undefined
          ? " (removed)"
          : " (changed)";
  };
  return html`<div class="stack">
    <label>File <select aria-label="File" value=${path} onChange=${(event) => setPath(event.target.value)}>${paths.map((each) => html`<option value=${each}>${each}${markOf(each)}</option>`)}</select></label>
    ${
      texts.error
        ? html`<${Failed} error=${texts.error} />`
        : texts.path !== path
          ? html`<${Loading} label="Reading the file" />`
          : live === null
            ? html`<pre class="diff" tabindex="0" role="region" aria-label=${path}>${texts.after}</pre>`
            : html`<${Diff} before=${texts.before} after=${texts.after} label=${`Changes of ${path} since ${live}`} />`
    }
  </div>`;
}

function Reject({ close, reject }) {
  const [note, setNote] = useState("");
  const send = (event) => {
    event.preventDefault();
    close();
    reject(note);
  };
  return html`<${Dialog} title="Reject this draft" close=${close}>
    <form class="stack" onSubmit=${send}>
      <label>Why<textarea rows="3" required maxlength="2000" value=${note} onInput=${(event) => setNote(event.target.value)}></textarea></label>
      <div class="buttons"><button class="danger" disabled=${note.trim() === ""}>Reject</button></div>
    </form>
  <//>`;
}
