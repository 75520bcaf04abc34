import { useMemo, useState } from "preact/hooks";
import { ago, compact, count, moment, money, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { has, may } from "../../core/session.js";
import { BarChart } from "../../parts/chart.js";
import { Choice, Facts, Page } from "../../parts/page.js";
import { Empty, Failed, Loading } from "../../parts/states.js";

const dayMs = 86_400_000;
const periods = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
];
/** Series of a chart; the rest is summed up as one. */
const seriesMax = 5;

/** What was spent: by day, model, agent, thread and budget. */
export function Screen() {
  const [days, setDays] = useState("30");
  const [by, setBy] = useState("model_id");
  const [figure, setFigure] = useState("cost");
  const since = useMemo(() => Math.floor(Date.now() / dayMs) * dayMs - (Number(days) - 1) * dayMs, [days]);
  const { data, error, reload } = useResource("GET /usage/summary", { since_ms: since });
  return html`<${Page}
    title="Usage"
    about="Tokens and cost of model calls, by UTC day"
    filters=${html`
      <${Choice} label="Period" options=${periods} value=${days} choose=${setDays} />
      <${Choice} label="Split by" options=${[["model_id", "By model"], ["manifest_id", "By agent"]]} value=${by} choose=${setBy} />
      <${Choice} label="Figure" options=${[["cost", "Cost"], ["tokens", "Tokens"], ["calls", "Calls"]]} value=${figure} choose=${setFigure} />
    `}
  >
    <div class="scroll stack" tabindex="0" role="region" aria-label="Usage">
      ${error ? html`<${Failed} error=${error} retry=${reload} />` : data === null ? html`<${Loading} label="Adding up" />` : html`<${Summary} data=${data} by=${by} figure=${figure} since=${since} days=${Number(days)} />`}
      ${has("GET /usage/budgets") && may("GET /usage/budgets") ? html`<${Budgets} />` : null}
      ${has("GET /usage/threads") && may("GET /usage/threads") ? html`<${Threads} since=${since} />` : null}
    </div>
  <//>`;
}

const figures = {
  cost: [({ cost_usd }) => cost_usd, money],
  tokens: [({ tokens_input, tokens_output }) => tokens_input + tokens_output, compact],
  calls: [({ calls }) => calls, count],
};

function Summary({ data, by, figure, since, days }) {
  const { totals, items } = data;
  const [figureOf, format] = figures[figure];
  const columns = Array.from({ length: days }, (_, at) => new Date(since + at * dayMs).toISOString().slice(0, 10));
  const groups = groupBy(items, (item) => item[by]);
  const sums = [...groups]
    .map(([name, list]) => ({ name, list, sum: list.reduce((sum, item) => sum + figureOf(item), 0) }))
    .sort((a, b) => b.sum - a.sum);
  const top = sums.slice(0, seriesMax);
  const rest = sums.slice(seriesMax).flatMap(({ list }) => list);
  const series = [...top, ...(rest.length > 0 ? [{ name: "others", list: rest }] : [])].map(({ name, list }) => ({
    name,
    values: columns.map((day) => list.reduce((sum, item) => (item.day === day ? sum + figureOf(item) : sum), 0)),
  }));
  return html`
    <section class="panel" aria-label="Totals">
      <${Facts}
        facts=${[
          ["Cost", money(totals.cost_usd)],
          ["Model calls", count(totals.calls)],
          ["Tokens in", compact(totals.tokens_input)],
          ["Tokens out", compact(totals.tokens_output)],
          ["From caches", compact(totals.cache_read)],
        ]}
      />
    </section>
    ${
      items.length === 0
        ? html`<${Empty} icon="usage" title="Nothing was spent in this time">Figures appear with the first model call.<//>`
        : html`<section class="panel" aria-label="By day"><h2>By day</h2><${BarChart} columns=${columns} series=${series} format=${format} label="Spending by day" /></section>
          <section class="panel table-box" tabindex="0" aria-label=${by === "model_id" ? "By model" : "By agent"}>
            <h2>${by === "model_id" ? "By model" : "By agent"}</h2>
            <${Table}
              head=${by === "model_id" ? "Model" : "Agent"}
              rows=${sums.map(({ name, list }) => ({ key: name, name, ...totalOf(list) }))}
            />
          </section>`
    }
  `;
}

function Table({ head, rows }) {
  return html`<table class="table">
    <thead><tr><th scope="col">${head}</th><th scope="col" class="figure">Calls</th><th scope="col" class="figure">Tokens in</th><th scope="col" class="figure">Tokens out</th><th scope="col" class="figure">Cost</th></tr></thead>
    <tbody>${rows.map(
      ({ key, name, calls, tokens_input, tokens_output, cost_usd, said }) =>
        html`<tr key=${key}><th scope="row">${name}${said ? html`<br /><small>${said}</small>` : null}</th><td class="figure">${count(calls)}</td><td class="figure">${compact(tokens_input)}</td><td class="figure">${compact(tokens_output)}</td><td class="figure">${money(cost_usd)}</td></tr>`,
    )}</tbody>
  </table>`;
}

function Budgets() {
  const { data, error, reload } = useResource("GET /usage/budgets");
  if (error) return html`<section class="panel"><${Failed} error=${error} retry=${reload} /></section>`;
  if (data === null) return null;
  return html`<section class="panel stack" aria-label="Budgets">
    <h2>Budgets</h2>
    ${
      data.items.length === 0
        ? html`<p class="hint">No budget limits this tenant. The operator sets them with <code>SVC_BUDGETS</code>.</p>`
        : data.items.map(
            ({ id, period, principal, manifest, tokens, usd, resets_at, warned }) => html`<div key=${id} class="budget">
            <div class="buttons"><b>${id}</b><span class="chip">a ${period}</span>${principal ? html`<span class="chip">for ${principal}</span>` : null}${manifest ? html`<span class="chip">${manifest}</span>` : null}${warned ? html`<span class="chip warn">nearly spent</span>` : null}<small class="spacer">resets ${ago(resets_at)}</small></div>
            ${usd ? html`<${Bar} label=${`Cost of ${id}`} of=${usd} format=${money} />` : null}
            ${tokens ? html`<${Bar} label=${`Tokens of ${id}`} of=${tokens} format=${compact} />` : null}
          </div>`,
          )
    }
  </section>`;
}

function Bar({ label, of: { limit, spent, reserved }, format }) {
  return html`<div class="budget-bar">
    <progress max=${limit} value=${Math.min(limit, spent + reserved)} aria-label=${label}></progress>
    <small>${format(spent)} of ${format(limit)}${reserved > 0 ? `, ${format(reserved)} reserved` : ""}</small>
  </div>`;
}

function Threads({ since }) {
  const { data, error, reload } = useResource("GET /usage/threads", { since_ms: since, limit: 50 });
  if (error) return html`<section class="panel"><${Failed} error=${error} retry=${reload} /></section>`;
  if (data === null || data.items.length === 0) return null;
  const rows = data.items.map((item) => ({
    ...item,
    key: item.thread_id,
    name: item.thread_id
      ? html`<a href=${to("chat", [suffixOf(item.thread_id)])}>${suffixOf(item.thread_id)}</a>`
      : "without a thread",
    said: moment(item.last_ts),
  }));
  return html`<section class="panel table-box" tabindex="0" aria-label="By thread"><h2>By thread, the last active first</h2><${Table} head="Thread" rows=${rows} /></section>`;
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

function totalOf(list) {
  const sum = (name) => list.reduce((total, item) => total + item[name], 0);
  return {
    calls: sum("calls"),
    tokens_input: sum("tokens_input"),
    tokens_output: sum("tokens_output"),
    cost_usd: sum("cost_usd"),
  };
}
