import { call } from "../../core/api.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { may } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Empty, Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";

const states = { pinned: "good", new: "warn", changed: "bad" };

/** The tools of the agent's MCP servers. A tool that is new or has changed does not run before a person approves it. */
export function Tools({ name }) {
  const { data, error, reload } = useResource("GET /manifests/{name}/tools", { name });
  if (error) return html`<${Failed} error=${error} retry=${reload} />`;
  if (data === null) return html`<${Loading} label="Asking the servers" />`;
  if (data.servers.length === 0)
    return html`<${Empty} icon="tool" title="No MCP server">The manifest names none in <code>mcp_servers</code>.<//>`;
  const approve = async (server, tools) => {
    const body = {
      name,
      server,
      ...(tools && { tools: tools.map(({ name: each, digest }) => ({ name: each, digest })) }),
    };
    if ((await attempt(() => call("POST /manifests/{name}/tools/approve", body), "Approved")) !== undefined) reload();
  };
  const mayApprove = may("POST /manifests/{name}/tools/approve");
  return data.servers.map(
    ({
      server,
      available,
      tools,
      instructions,
      removed,
    }) => html`<section key=${server} class="panel stack" aria-label=${server}>
      <div class="buttons">
        <h2 class="break">${server}</h2>
        <span class=${`chip ${available ? "good" : "bad"}`}>${available ? "answers" : "does not answer"}</span>
        ${mayApprove && tools.some(({ state }) => state !== "pinned") ? html`<button type="button" class="small" onClick=${() => approve(server, null)}>Approve all</button>` : null}
      </div>
      ${removed.length > 0 ? html`<p class="hint">No longer there: ${removed.join(", ")}</p>` : null}
      ${instructions ? html`<details><summary>Instructions <span class=${`chip ${states[instructions.state]}`}>${instructions.state}</span></summary><${Code} text=${instructions.text} label="Instructions of the server" /></details>` : null}
      ${tools.map(
        (tool) => html`<details key=${tool.name} class="tool">
          <summary><b>${tool.bound_name}</b><span class="preview" dir="auto">${tool.description}</span><span class=${`chip ${states[tool.state]}`}>${tool.state}</span></summary>
          <div class="tool-inside">
            <p class="plain-text" dir="auto">${tool.description}</p>
            <${Code} text=${tool.parameters} label=${`Parameters of ${tool.name}`} />
            ${mayApprove && tool.state !== "pinned" ? html`<div class="buttons"><button type="button" class="primary small" onClick=${() => approve(server, [tool])}>Approve this tool</button></div>` : null}
          </div>
        </details>`,
      )}
    </section>`,
  );
}
