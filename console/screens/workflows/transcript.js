import { useEffect, useState } from "preact/hooks";
import { line } from "../../core/format.js";
import { html } from "../../core/html.js";
import { onNews } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { Code, pretty } from "../../parts/code.js";
import { Icon } from "../../parts/icon.js";
import { LongText } from "../../parts/long-text.js";
import { Markdown } from "../../parts/markdown.js";
import { Failed, Loading } from "../../parts/states.js";

/** The messages of the run of a step, or of one item of a map. */
export function Transcript({ path, step, hasItems }) {
  const [item, setItem] = useState(0);
  const { data, error, reload } = useResource("GET /workflows/{workflow_id}/runs/{run_id}/steps/{step_id}/thread", {
    ...path,
    step_id: step.step_id,
    ...(hasItems && { item }),
  });
  useEffect(reload, [step.status, step.attempt]);
  useEffect(
    () =>
      onNews(
        ({ kind, thread_id }) => (kind === "reset" || (kind === "thread" && thread_id === step.thread_id)) && reload(),
      ),
    [step.thread_id],
  );
  return html`<section class="stack" aria-label="Transcript">
    <div class="buttons">
      <h3>Transcript</h3>
      ${hasItems ? html`<label>of item <input type="number" class="flow-item" min="0" max="999" value=${item} onInput=${(event) => setItem(Math.trunc(Math.min(999, Math.max(0, Number(event.target.value) || 0))))} /></label>` : null}
      <button type="button" class="ghost icon-button small" aria-label="Read the transcript again" onClick=${reload}><${Icon} name="refresh" size=${14} /></button>
    </div>
    ${
      error?.status === 404
        ? html`<p class="hint">${hasItems ? "This item has no transcript." : "The step has no transcript yet."}</p>`
        : error
          ? html`<${Failed} error=${error} retry=${reload} />`
          : data === null
            ? html`<${Loading} label="Reading the transcript" />`
            : data.messages.length === 0
              ? html`<p class="hint">No message yet.</p>`
              : html`<ol class="flow-messages">${data.messages.map((message) => html`<${Message} key=${message.seq} message=${message} />`)}</ol>`
    }
  </section>`;
}

function Message({ message: { role, content, name, tool_calls = [] } }) {
  if (role === "tool")
    return html`<li><details class="tool"><summary><${Icon} name="tool" size=${15} /> <b>${name ?? "tool"}</b><span class="preview" dir="auto">${line(content, 90)}</span></summary>
      <div class="tool-inside"><${Code} text=${pretty(content)} label=${`Result of ${name ?? "tool"}`} /></div></details></li>`;
  return html`<li>
    <small>${role ?? "note"}</small>
    ${content === "" ? null : role === "assistant" ? html`<${Markdown} text=${content} />` : html`<${LongText} text=${content} />`}
    ${(tool_calls ?? []).map((each) => html`<p key=${each.id} class="step-note"><${Icon} name="tool" size=${15} /> <b>${each.name}</b> <code class="break">${line(JSON.stringify(each.args ?? {}), 200)}</code></p>`)}
  </li>`;
}
