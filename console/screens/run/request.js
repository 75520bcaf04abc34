import { useState } from "preact/hooks";
import { count, duration, money } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { Code } from "../../parts/code.js";
import { Icon } from "../../parts/icon.js";
import { Choice, Facts } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";

/** What the model was sent in one call of a run, and what it cost. */
export function Request({ id, n, choose }) {
  const { data, error, reload } = useResource("GET /runs/{run_id}/requests/{n}", { run_id: id, n });
  const [tab, setTab] = useState("messages");
  if (error) return html`<section class="panel"><${Failed} error=${error} retry=${reload} /></section>`;
  if (data === null) return html`<section class="panel"><${Loading} label="Reading the request" /></section>`;
  const {
    of,
    purpose,
    step,
    route,
    parameters,
    tries,
    started,
    first_token,
    ended,
    outcome,
    stop_reason,
    usage,
    cost_usd,
    digests,
    bodies,
    estimated,
  } = data;
  return html`<section class="panel stack" aria-label=${`Request ${n}`}>
    <div class="buttons">
      <h2>Request ${n} of ${of}</h2>
      <button type="button" class="ghost icon-button small" aria-label="Previous request" disabled=${n <= 1} onClick=${() => choose(n - 1)}><${Icon} name="left" size=${15} /></button>
      <button type="button" class="ghost icon-button small" aria-label="Next request" disabled=${n >= of} onClick=${() => choose(n + 1)}><${Icon} name="right" size=${15} /></button>
      <span class="chip">${purpose} ${step}</span>
      <span class=${`chip ${outcome === "ok" ? "good" : "bad"}`}>${outcome}</span>
    </div>
    <${Facts}
      facts=${[
        ["Model", route],
        ["First token after", first_token === null ? "" : duration(first_token - started)],
        ["Took", duration(ended - started)],
        ["Stop reason", stop_reason],
        ["Tokens in", usage ? count(usage.input) : ""],
        ["Tokens out", usage ? count(usage.output) : ""],
        ["From the cache", usage?.cacheRead ? count(usage.cacheRead) : ""],
        ["Cost", `${money(cost_usd)}${estimated ? " (estimated)" : ""}`],
        [
          "Tries",
          tries.length > 1 ? tries.map((each) => `${each.route} ${each.outcome} ${duration(each.ms)}`).join(", ") : "",
        ],
      ]}
    />
    ${
      bodies === null
        ? html`<p class="hint">The complete request is shown to callers with the scope <code>manifests:read</code>.</p>
          <${Code} text=${{ parameters, digests }} label="Parameters and digests" />`
        : html`
          <${Choice} label="Part of the request" value=${tab} choose=${setTab} options=${[["messages", `Messages (${bodies.messages?.length ?? 0})`], ["system", "System text"], ["tools", `Tools (${bodies.tools?.length ?? 0})`], ["rest", "Parameters"]]} />
          ${bodies.problems.length > 0 ? html`<p class="problem">${bodies.problems.join("; ")}</p>` : null}
          <${Code} key=${tab} text=${partOf(tab, bodies, { parameters, digests })} label="Part of the request" />
        `
    }
  </section>`;
}

function partOf(tab, { messages, system, tools, reply, answer }, rest) {
  if (tab === "messages") return messages ?? "The messages are no longer stored.";
  if (tab === "system")
    return system === null ? "The system text is no longer stored." : system || "The agent has no system text.";
  if (tab === "tools") return tools ?? "The tools are no longer stored.";
  return { ...rest, ...(answer ? { answer } : {}), ...(reply ? { reply } : {}) };
}
