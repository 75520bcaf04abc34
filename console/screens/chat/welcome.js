import { html } from "../../core/html.js";
import { Icon } from "../../parts/icon.js";
import { Empty, Failed, Loading } from "../../parts/states.js";

/** An empty conversation: what the agent is for, and messages to begin with. */
export function Welcome({ agent, models, choose }) {
  if (models.error) return html`<div class="fill"><${Failed} error=${models.error} retry=${models.reload} /></div>`;
  if (models.data === null) return html`<div class="fill"><${Loading} label="Reading the agents" /></div>`;
  if (!agent)
    return html`<div class="fill"><${Empty} icon="agents" title="No agent yet">Store a manifest on the screen Agents, or with PUT /manifests/{name}.</${Empty}></div>`;
  const { greeting, starters = [], description } = agent;
  return html`<div class="fill welcome">
    <span class="brand-mark large" aria-hidden="true"><${Icon} name="agents" size=${26} /></span>
    <h2 dir="auto">${greeting?.headline ?? `Talk to ${agent.name}`}</h2>
    <p dir="auto">${greeting?.subtitle ?? description ?? ""}</p>
    ${
      starters.length > 0
        ? html`<ul class="starters" aria-label="Ideas to begin with">
          ${starters.map(
            ({ title, prompt }) => html`<li>
              <button type="button" class="starter" onClick=${() => choose(prompt)}><b dir="auto">${title}</b><span dir="auto">${prompt}</span></button>
            </li>`,
          )}
        </ul>`
        : null
    }
  </div>`;
}
