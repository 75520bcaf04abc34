import { useEffect, useState } from "preact/hooks";
import { call, follow } from "../../core/api.js";
import { ago, duration, moment, money } from "../../core/format.js";
import { html } from "../../core/html.js";
import { to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Code } from "../../parts/code.js";
import { Confirm } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { Facts } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt } from "../../parts/toast.js";
import { Graph } from "./graph.js";
import { graphOf } from "./references.js";
import { StepOfRun } from "./step.js";

const route = "GET /workflows/{workflow_id}/runs/{run_id}/stream";

/** One run of a workflow, which follows the stream of its versions. `workflow` is null if it was deleted. */
export function WorkflowRun({ id, runId, workflow }) {
  const path = { workflow_id: id, run_id: runId };
  const [{ run, error, isLost }, setState] = useState({ run: null, error: null, isLost: false });
  const [turn, setTurn] = useState(0);
  const [chosen, setChosen] = useState(null);
  const [isCancelling, setCancelling] = useState(false);
  const old = useOldRevision(id, run?.revision, workflow);
  useEffect(() => {
    const stop = new AbortController();
    void watch(path, stop.signal, (change) => setState((old) => ({ ...old, ...change })));
    return () => stop.abort();
  }, [id, runId, turn]);
  if (error) return html`<${Failed} error=${error} retry=${() => setTurn(turn + 1)} />`;
  if (run === null) return html`<${Loading} label="Reading the run" />`;
  const { status, revision, inputs, outputs, steps, started_by, cause, cost_usd, created_at, finished_at } = run;
  const cancel = () => attempt(() => call("POST /workflows/{workflow_id}/runs/{run_id}/cancel", path), "Cancelling");
  const own = workflow?.revision === revision ? workflow : old;
  const known = new Map((own?.definition.steps ?? []).map((step) => [step.id, step]));
  const step = steps.find(({ step_id }) => step_id === chosen);
  return html`
    <div class="buttons">
      <a class="button ghost small" href=${to("workflows", [id])}><${Icon} name="left" size=${14} /> All runs</a>
      <span class=${`chip ${status}`} role="status">${status}</span>
      ${isLost ? html`<span class="chip warn">connecting again</span>` : null}
      ${finished_at === null && status !== "cancelling" && may("POST /workflows/{workflow_id}/runs/{run_id}/cancel") ? html`<button type="button" class="small danger-soft" onClick=${() => setCancelling(true)}><${Icon} name="stop" size=${14} /> Cancel the run</button>` : null}
    </div>
    <section class="panel stack" aria-label="Steps">
      <${Graph} steps=${stepsOf(steps, own)} chosen=${chosen} choose=${setChosen} />
      ${own === workflow ? null : html`<p class="hint">The run keeps revision ${revision}. ${workflow ? `The workflow now has revision ${workflow.revision}.` : "The workflow was deleted."}</p>`}
    </section>
    ${step ? html`<${StepOfRun} key=${chosen} path=${path} step=${step} definition=${known.get(chosen) ?? null} />` : null}
    <section class="panel stack" aria-label="Facts">
      <${Facts}
        facts=${[
          ["Started", html`<span title=${moment(created_at)}>${ago(created_at)}</span>`],
          ["Took", duration((finished_at ?? Date.now()) - created_at)],
          ["By", started_by],
          ["Cause", cause],
          ["Revision", revision],
          ["Cost", money(cost_usd)],
          ["Id", html`<code>${runId}</code>`],
        ]}
      />
      ${run.error ? html`<p class="banner bad" role="alert"><span class="break">${run.error}</span></p>` : null}
    </section>
    <section class="panel stack"><h2>Inputs</h2><${Code} text=${inputs} label="Inputs of the run" /></section>
    ${outputs === null ? null : html`<section class="panel stack"><h2>Outputs</h2><${Code} text=${outputs} label="Outputs of the run" /></section>`}
    ${isCancelling ? html`<${Confirm} title="Cancel this run?" text="The work in progress is aborted, and no further step begins." action="Cancel the run" close=${() => setCancelling(false)} confirm=${cancel} />` : null}
  `;
}

/** Tells each version of a run until it has ended, then the whole values. */
async function watch(path, signal, tell) {
  tell({ run: null, error: null, isLost: false });
  try {
    const onState = (state) => tell({ isLost: state === "lost" });
    for await (const { event, data } of follow(route, path, { signal, onState })) {
      if (event !== "workflow_run") continue;
      tell({ run: data });
      if (data.finished_at !== null) break;
    }
    if (!signal.aborted) tell({ run: await call("GET /workflows/{workflow_id}/runs/{run_id}", path, { signal }) });
  } catch (error) {
    if (!signal.aborted) tell({ error });
  }
}

/** Returns the revision of a run if the workflow has another one or was deleted; null before it is read. */
function useOldRevision(id, revision, workflow) {
  const [old, setOld] = useState(null);
  const isOld = revision !== undefined && workflow?.revision !== revision;
  useEffect(() => {
    if (!isOld) return;
    const stop = new AbortController();
    call("GET /workflows/{workflow_id}", { workflow_id: id, revision }, { signal: stop.signal }).then(setOld, () => {});
    return () => stop.abort();
  }, [id, revision, isOld]);
  return old?.revision === revision ? old : null;
}

/** Returns the steps of a run for the graph; without arrows while their revision is not read. */
function stepsOf(steps, workflow) {
  const needs = new Map(workflow === null ? [] : graphOf(workflow.definition).map((step) => [step.id, step.needs]));
  return steps.map(({ step_id: id, kind, label, status }) => ({ id, kind, label, status, needs: needs.get(id) ?? [] }));
}
