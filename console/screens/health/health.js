import { useEffect } from "preact/hooks";
import { ago, count, duration } from "../../core/format.js";
import { html } from "../../core/html.js";
import { connection } from "../../core/live.js";
import { useResource } from "../../core/resource.js";
import { has, may } from "../../core/session.js";
import { Icon } from "../../parts/icon.js";
import { Facts, Page } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { parseMetrics, sumOf } from "./metrics.js";

const checkNames = {
  database: "Database",
  redis: "Redis",
  object_store: "Object store",
  jwks: "Keys of the identity provider",
  vectors: "Vectors",
};
const streams = { open: "connected", lost: "reconnecting", off: "off" };

/** Whether the server and what it needs work; its hosts, and figures of this process. */
export function Screen() {
  const ready = useResource("GET /ready");
  const hosts = useResource(has("GET /hosts") && may("GET /hosts") ? "GET /hosts" : null);
  const metrics = useResource("GET /metrics");
  const health = useResource("GET /health");
  const reload = () => {
    for (const each of [ready, hosts, metrics, health]) each.reload();
  };
  useEffect(() => {
    const onVisible = () => document.hidden || reload();
    document.addEventListener("visibilitychange", onVisible);
    return () => document.removeEventListener("visibilitychange", onVisible);
  }, []);
  return html`<${Page} title="Health" tools=${html`<button type="button" onClick=${reload}><${Icon} name="refresh" size=${16} /> Refresh</button>`}>
    <div class="scroll stack" tabindex="0" role="region" aria-label="Health">
      <section class="panel" aria-label="Service">
        <${Facts}
          facts=${[
            [
              "Service",
              html`<span class=${`chip ${ready.data ? "good" : ready.error ? "bad" : ""}`}>${ready.data?.status ?? (ready.error ? "not ready" : "…")}</span>`,
            ],
            ["Version", health.data?.version],
            ["Environment", health.data?.env],
            [
              "News of this tab",
              html`<span class=${`chip ${connection.value === "open" ? "good" : "warn"}`}>${streams[connection.value]}</span>`,
            ],
          ]}
        />
      </section>
      <section class="panel" aria-label="Dependencies">
        <h2>What it needs</h2>
        ${ready.error ? html`<${Failed} error=${ready.error} retry=${ready.reload} />` : ready.data === null ? html`<${Loading} label="Asking" />` : html`<ul class="checks">${Object.entries(ready.data.checks).map(([name, check]) => html`<${Check} key=${name} name=${name} check=${check} />`)}</ul>`}
      </section>
      ${hosts.data ? html`<${Hosts} hosts=${hosts.data.items} />` : null}
      <section class="panel" aria-label="Figures">
        <h2>Figures of this process</h2>
        ${metrics.error ? html`<${Failed} error=${metrics.error} retry=${metrics.reload} />` : metrics.data === null ? html`<${Loading} label="Reading metrics" />` : html`<${Figures} text=${metrics.data} />`}
      </section>
    </div>
  <//>`;
}

function Check({ name, check }) {
  const { ok, duration_ms, configured } = check;
  const isOff = configured === false;
  return html`<li>
    <span class=${`chip ${isOff ? "" : ok ? "good" : "bad"}`}>${isOff ? "not used" : ok ? "works" : "fails"}</span>
    <b>${checkNames[name] ?? name}</b>
    ${isOff ? null : html`<small>${duration(duration_ms)}</small>`}
    ${check.error ? html`<span class="problem break">${check.error}</span>` : null}
  </li>`;
}

function Hosts({ hosts }) {
  return html`<section class="panel table-box" tabindex="0" aria-label="Hosts">
    <h2>Hosts</h2>
    <table class="table">
      <thead><tr><th scope="col">Host</th><th scope="col">Duties</th><th scope="col">Version</th><th scope="col">Started</th><th scope="col">Settings that differ</th></tr></thead>
      <tbody>${hosts.map(
        ({
          id,
          name,
          mode,
          self,
          draining,
          duties,
          version,
          started_at,
          differs,
          lease_ms,
        }) => html`<tr key=${id} class=${differs.length > 0 ? "differs" : ""}>
          <th scope="row">${name} ${self ? html`<span class="chip live">answers here</span>` : null} ${draining ? html`<span class="chip warn">draining</span>` : null}<br /><small>${mode}${mode === "alone" ? "" : `, lease ${duration(lease_ms)}`}</small></th>
          <td>${duties.join(", ")}</td>
          <td>${version}</td>
          <td>${ago(started_at)}</td>
          <td>${differs.length === 0 ? "none" : differs.join(", ")}</td>
        </tr>`,
      )}</tbody>
    </table>
  </section>`;
}

function Figures({ text }) {
  const samples = parseMetrics(text);
  const memory = sumOf(samples, "process_resident_memory_bytes");
  const requests = sumOf(samples, "svc_http_requests_total");
  const failed = sumOf(samples, "svc_http_requests_total", ({ status = "" }) => status.startsWith("5"));
  const known = [
    ["Requests answered", count(requests)],
    ["Answered with 5xx", count(failed)],
    ["Memory", memory === 0 ? "" : `${Math.round(memory / 1024 / 1024)} MiB`],
    ["Model calls", samples.has("svc_model_calls_total") && count(sumOf(samples, "svc_model_calls_total"))],
    ["Tool calls", samples.has("svc_tool_calls_total") && count(sumOf(samples, "svc_tool_calls_total"))],
  ].filter(([, value]) => value !== false);
  const own = [...samples.keys()].filter((name) => name.startsWith("svc_") && !/_bucket$|_created$/.test(name)).sort();
  return html`<${Facts} facts=${known} />
    <details class="all-metrics">
      <summary>All ${own.length} metrics of svc</summary>
      <table class="table">
        <thead><tr><th scope="col">Metric</th><th scope="col" class="figure">Sum</th></tr></thead>
        <tbody>${own.map((name) => html`<tr key=${name}><th scope="row"><code>${name}</code></th><td class="figure">${Number(sumOf(samples, name).toPrecision(6)).toLocaleString()}</td></tr>`)}</tbody>
      </table>
    </details>`;
}
