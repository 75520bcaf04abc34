import { useState } from "preact/hooks";
import { duration, line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { Approval } from "../../parts/approval.js";
import { Code, pretty } from "../../parts/code.js";
import { Icon } from "../../parts/icon.js";
import { StoredImage } from "./image.js";

const states = {
  running: ["running", "spinner"],
  approval: ["waits for an approval", "warn"],
  client: ["waits for a client", "clock"],
  open: ["did not run", "clock"],
  ok: ["done", "check"],
  error: ["failed", "cross"],
  denied: ["denied", "cross"],
};

/** A call of a tool: its name and state, and inside its arguments and result. */
export function Tool({ tool, settle }) {
  const [isOpen, setOpen] = useState(false);
  const { name, input, output, progress, attachments = [], sources = [], ms, approval } = tool;
  const [said, icon] = states[tool.state] ?? [tool.state, "cross"];
  const share = progress?.total ? Math.min(1, progress.done / progress.total) : null;
  if (tool.state === "approval")
    return html`<${Approval}
      request=${approval}
      onDecided=${(decision) => settle(tool.id, { state: { approved: "running", denied: "denied" }[decision] ?? "open" })}
    />`;
  return html`<details class=${`tool ${tool.state}`} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>
      ${icon === "spinner" ? html`<span class="spinner small" aria-hidden="true"></span>` : html`<${Icon} name=${icon} size=${15} />`}
      <b>${name}</b>
      <span class="preview" dir="auto">${preview(input)}</span>
      <span class="tool-state">${progress?.message ?? said}${ms === undefined ? "" : ` · ${duration(ms)}`}</span>
    </summary>
    ${
      isOpen
        ? html`<div class="tool-inside">
          <${Code} text=${input ?? {}} label=${`Arguments of ${name}`} />
          ${output === undefined ? null : html`<${Code} text=${pretty(output)} label=${`Result of ${name}`} />`}
          ${
            sources.length > 0
              ? html`<ul class="sources" aria-label="Sources">${sources.map(({ title, source, chunk_index }) => html`<li><${Icon} name="knowledge" size=${14} /> ${title || source} <small>part ${chunk_index + 1}</small></li>`)}</ul>`
              : null
          }
        </div>`
        : null
    }
    ${share === null ? null : html`<progress max="1" value=${share} aria-label=${`Progress of ${name}`}></progress>`}
  </details>
  ${attachments.map((each) => html`<${StoredImage} key=${each.url} image=${each} />`)}`;
}

/** The arguments on one line: the only value, or all fields. */
function preview(input) {
  if (input === null || typeof input !== "object") return line(input ?? "", 80);
  const values = Object.values(input);
  if (values.length === 1 && typeof values[0] === "string") return line(values[0], 80);
  return line(JSON.stringify(input).replace(/^\{|\}$/g, ""), 80);
}
