import { useEffect } from "preact/hooks";
import { duration, moment } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Icon } from "../../parts/icon.js";
import { Facts } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { pathsOf, valueAt } from "./references.js";
import { Transcript } from "./transcript.js";

/** Kinds whose work has a run of its own. */
const withRun = new Set(["agent", "tool_call"]);

/** A step as its author wrote it. */
export function StepDefinition({ step }) {
  return html`<section class="panel stack" aria-label=${`Step ${step.id}`}>
    <h2 class="break" dir="auto">${step.label ?? step.id}</h2>
    <${Code} text=${step} label=${`Definition of ${step.id}`} />
  </section>`;
}

/** A step of a run: its state, the values that it reads and gives, and its transcript. `definition` is null if it is not known. */
export function StepOfRun({ path, step, definition }) {
  // Frames of the stream shorten long values, so the whole ones are read here.
  const { data, error, reload } = useResource("GET /workflows/{workflow_id}/runs/{run_id}", path);
  useEffect(reload, [step.status, step.attempt]);
  const { step_id, kind, label, status, attempt, error: failure, taint, started_at, finished_at } = step;
  const whole = data?.steps.find((each) => each.step_id === step_id);
  const output = whole?.output ?? step.output;
  const inner = kind === "map" ? definition?.config?.step?.kind : undefined;
  const hasItems = kind === "map" && (inner === undefined || withRun.has(inner));
  return html`<section class="panel stack" aria-label=${`Step ${step_id}`}>
    <div class="buttons">
      <h2 class="break" dir="auto">${label ?? step_id}</h2>
      <span class=${`chip ${status}`}>${status}</span>
      ${kind === "approval" && status === "waiting" && may("GET /approvals") ? html`<a class="button small" href=${to("inbox")}><${Icon} name="inbox" size=${14} /> Decide it in the inbox</a>` : null}
    </div>
    <${Facts}
      facts=${[
        ["Step", step_id],
        ["Kind", kind.replace("_", " ")],
        ["Try", attempt || ""],
        ["Began", started_at ? moment(started_at) : ""],
        ["Took", started_at ? duration((finished_at ?? Date.now()) - started_at) : ""],
        ["Untrusted sources", taint.join(", ")],
      ]}
    />
    ${failure ? html`<p class="banner bad"><span class="break">${failure}</span></p>` : null}
    ${
      error
        ? html`<${Failed} error=${error} retry=${reload} />`
        : data === null
          ? html`<${Loading} label="Reading the values" />`
          : html`
            ${definition ? html`<${Read} definition=${definition} run=${data} />` : null}
            ${output === null ? null : html`<section class="stack" aria-label="Output"><h3>Output</h3><${Code} text=${output} label=${`Output of ${step_id}`} /></section>`}
          `
    }
    ${definition ? html`<details><summary>Definition</summary><${Code} text=${definition} label=${`Definition of ${step_id}`} /></details>` : null}
    ${withRun.has(kind) || hasItems ? html`<${Transcript} key=${step_id} path=${path} step=${step} hasItems=${hasItems} />` : null}
  </section>`;
}

/** The values that a step reads from the inputs of the run and from other steps. */
function Read({ definition, run }) {
  const paths = pathsOf(definition);
  if (paths.length === 0) return null;
  const values = Object.fromEntries(paths.map((path) => [path, valueAt(path, run) ?? null]));
  return html`<section class="stack" aria-label="Input"><h3>Input</h3><${Code} text=${values} label=${`Input of ${definition.id}`} /></section>`;
}
