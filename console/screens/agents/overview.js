import { useEffect, useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { compact, duration, money } from "../../core/format.js";
import { html } from "../../core/html.js";
import { Facts } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";

/** What a manifest may do, as the server has resolved it. */
export function Overview({ name, manifest }) {
  const [state, setState] = useState({ plan: null, error: null });
  const read = () => {
    call("POST /manifests/{name}/plan", { name, manifest }).then(
      (plan) => setState({ plan, error: null }),
      (error) => setState({ plan: null, error }),
    );
  };
  useEffect(read, [name, manifest]);
  if (state.error) return html`<${Failed} error=${state.error} retry=${read} />`;
  if (state.plan === null) return html`<${Loading} label="Resolving the manifest" />`;
  return html`${manifest.metadata?.description ? html`<p dir="auto" class="break">${manifest.metadata.description}</p>` : null}<${Plan} plan=${state.plan} />`;
}

/** A plan: model, limits, tools with their effects and approvals, servers and controls. */
export function Plan({ plan }) {
  const { model, tools, mcp_servers, peers, sub_agents, hosts, required_scopes, limits, controls, pins, digest } = plan;
  return html`
    <section class="panel" aria-label="Model and limits">
      <${Facts}
        facts=${[
          [
            "Model",
            `${model.id}${model.fallbacks.length > 0 ? `, then ${model.fallbacks.map((each) => each.id ?? each).join(", ")}` : ""}`,
          ],
          ["Provider", model.provider],
          ["At most", `${limits.max_tool_calls} calls in ${duration(limits.max_wall_clock_seconds * 1000)}`],
          ["Tokens", `${compact(limits.max_input_tokens)} in, ${compact(limits.max_output_tokens)} out`],
          ["Cost", money(limits.max_cost_usd)],
          ["Callers need", required_scopes.join(", ") || "no scope"],
          [
            "Controls",
            controls
              .map((each) => (typeof each === "string" ? each : (each.name ?? each.id ?? JSON.stringify(each))))
              .join(", ") || "none of its own",
          ],
          ["Sub-agents", sub_agents.map(nameOf).join(", ")],
          ["MCP servers", mcp_servers.map(nameOf).join(", ")],
          ["Peers", peers.map(nameOf).join(", ")],
          ["May reach", hosts === null ? "" : hosts.map(nameOf).join(", ") || "no host"],
          ["Pins threads", pins ? "yes" : ""],
          ["Digest", html`<code>${digest.slice(0, 16)}</code>`],
        ]}
      />
    </section>
    <section class="panel table-box" tabindex="0" aria-label="Tools">
      <h2>Tools</h2>
      ${
        tools.length === 0
          ? html`<p class="hint">It has no tool.</p>`
          : html`<table class="table">
            <thead><tr><th scope="col">Tool</th><th scope="col">Effect</th><th scope="col">Risk</th><th scope="col">Approval</th><th scope="col">Scopes</th></tr></thead>
            <tbody>${tools.map(
              ({ name, effect, risk, approval, required_scopes: scopes }) =>
                html`<tr key=${name}><th scope="row"><code>${name}</code></th><td><span class=${`chip ${effect === "read" ? "" : "warn"}`}>${effect}</span></td><td>${risk}</td><td>${approval === null ? "none" : typeof approval === "string" ? approval : (approval.id ?? approval.rule ?? "needed")}</td><td>${scopes.join(", ")}</td></tr>`,
            )}</tbody>
          </table>`
      }
    </section>
  `;
}

function nameOf(each) {
  return typeof each === "string" ? each : (each.name ?? each.id ?? each.host ?? JSON.stringify(each));
}
