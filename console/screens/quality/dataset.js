import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { count, line, suffixOf } from "../../core/format.js";
import { html } from "../../core/html.js";
import { useResource } from "../../core/resource.js";
import { go, to } from "../../core/router.js";
import { may } from "../../core/session.js";
import { Confirm } from "../../parts/dialog.js";
import { Icon } from "../../parts/icon.js";
import { Page } from "../../parts/page.js";
import { Failed, Loading } from "../../parts/states.js";
import { attempt, toast } from "../../parts/toast.js";
import { Runs } from "./runs.js";

const itemsRoute = "POST /eval/datasets/{name}/items";
const runRoute = "POST /eval/runs";
const deleteRoute = "DELETE /eval/datasets/{name}";
/** Items that are shown. */
const shownMax = 200;

/** A dataset: its items, a new one from a question or from a thread, and its runs. */
export function Dataset({ name }) {
  const { data, error, reload } = useResource("GET /eval/datasets/{name}", { name });
  const [isDeleting, setDeleting] = useState(false);
  const remove = async () => {
    if ((await attempt(() => call(deleteRoute, { name }), "Deleted")) !== undefined) go(to("quality"));
  };
  const tools = html`<a class="button ghost icon-button" href=${to("quality")} aria-label="All datasets"><${Icon} name="left" size=${16} /></a>
    ${may(deleteRoute) ? html`<button type="button" class="danger-soft" onClick=${() => setDeleting(true)}><${Icon} name="trash" size=${16} /> Delete</button>` : null}`;
  return html`<${Page} title=${name} tools=${tools} about=${data?.description ?? ""}>
    ${
      error
        ? html`<${Failed} error=${error} retry=${reload} />`
        : data === null
          ? html`<${Loading} label="Reading the dataset" />`
          : html`<div class="scroll stack" tabindex="0" role="region" aria-label="Dataset">
            ${may(runRoute) && data.items.length > 0 ? html`<${Start} name=${name} />` : null}
            <${Items} items=${data.items} />
            ${may(itemsRoute) ? html`<${Add} name=${name} onAdded=${reload} />` : null}
            <section class="panel stack" aria-label="Runs of this dataset"><h2>Runs</h2><div class="short-list"><${Runs} input=${{ dataset: name }} /></div></section>
          </div>`
    }
    ${isDeleting ? html`<${Confirm} title="Delete this dataset?" text="Its items are gone. Its runs stay." action="Delete" close=${() => setDeleting(false)} confirm=${remove} />` : null}
  <//>`;
}

function Items({ items }) {
  return html`<section class="panel stack" aria-label="Items">
    <h2>${count(items.length)} ${items.length === 1 ? "item" : "items"}</h2>
    ${
      items.length === 0
        ? html`<p class="hint">Add a question below, or a turn of a thread.</p>`
        : html`<div class="table-box" tabindex="0" role="region" aria-label="Questions and rules"><table class="table">
          <thead><tr><th scope="col">Item</th><th scope="col">Question</th><th scope="col">Rules</th></tr></thead>
          <tbody>${items.slice(0, shownMax).map(({ item_id, user_input, rubric }) => html`<tr key=${item_id}><th scope="row" class="break">${item_id}</th><td dir="auto">${line(user_input, 300)}</td><td><code class="break">${line(JSON.stringify(rubric), 300)}</code></td></tr>`)}</tbody>
        </table></div>`
    }
    ${items.length > shownMax ? html`<p class="hint">The first ${shownMax} are shown.</p>` : null}
  </section>`;
}

/** Starts a run with an agent. */
function Start({ name }) {
  const agents = useResource("GET /manifests");
  const [agent, setAgent] = useState("");
  const [isBusy, setBusy] = useState(false);
  const names = (agents.data?.items ?? []).map((each) => each.name);
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    const started = await attempt(() =>
      call(runRoute, { dataset_name: name, candidate_manifest: agent }, { headers: { prefer: "wait=0" } }),
    );
    setBusy(false);
    if (started) go(to("quality", ["run", started.id]));
  };
  return html`<form class="buttons" onSubmit=${run}>
    <label>Agent <select required value=${agent} onChange=${(event) => setAgent(event.target.value)}><option value="">choose</option>${names.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
    <button class="primary" disabled=${agent === "" || isBusy}><${Icon} name="run" size=${16} /> Evaluate it</button>
  </form>`;
}

/** Adds an item: a question with its rules, or a turn of a thread with its rating. */
function Add({ name, onAdded }) {
  const [from, setFrom] = useState("question");
  const [fields, setFields] = useState({ user_input: "", contains: "", criteria: "", thread_id: "" });
  const set = (field) => (event) => setFields({ ...fields, [field]: event.target.value });
  const rubric = () => ({
    ...(fields.contains !== "" && { contains: fields.contains }),
    ...(fields.criteria !== "" && { llm_judge: true, judge_criteria: fields.criteria }),
  });
  const add = async (event) => {
    event.preventDefault();
    const rules = rubric();
    const item =
      from === "question"
        ? { items: [{ user_input: fields.user_input, rubric: rules }] }
        : await turnOf(fields.thread_id, rules);
    if (item === null || (await attempt(() => call(itemsRoute, { name, ...item }), "Added")) === undefined) return;
    setFields({ user_input: "", contains: "", criteria: "", thread_id: "" });
    onAdded();
  };
  return html`<section class="panel stack" aria-label="Add an item">
    <h2>Add an item</h2>
    <form class="stack" onSubmit=${add}>
      <label>From <select value=${from} onChange=${(event) => setFrom(event.target.value)}><option value="question">a question</option><option value="thread">the last turn of a thread</option></select></label>
      ${
        from === "question"
          ? html`<label>Question<textarea rows="2" required value=${fields.user_input} onInput=${set("user_input")}></textarea></label>`
          : html`<label>Thread<input class="wide" required value=${fields.thread_id} onInput=${set("thread_id")} /></label>`
      }
      <label>The answer contains<input class="wide" value=${fields.contains} onInput=${set("contains")} /></label>
      <label>Criteria for a judge<input class="wide" value=${fields.criteria} onInput=${set("criteria")} /></label>
      ${from === "thread" ? html`<p class="hint">Without rules, the rating of the answer gives the criteria.</p>` : null}
      <div class="buttons"><button class="primary"><${Icon} name="plus" size=${16} /> Add</button></div>
    </form>
  </section>`;
}

/** Returns an item from the last answer of a thread; null if it has none. */
async function turnOf(thread, rubric) {
  const thread_id = suffixOf(thread.trim());
  const read = await attempt(() => call("GET /chat/sessions/{thread_id}", { thread_id }));
  if (read === undefined) return null;
  const events = new Map((read?.transcript ?? []).map((event) => [event.id, event]));
  let last = events.get(read?.leafId);
  while (last && !["assistant", "user"].includes(last.role)) last = events.get(last.parentId);
  if (last) return { thread_id, event_id: last.id, ...(Object.keys(rubric).length > 0 && { rubric }) };
  toast("The thread has no turn", "error");
  return null;
}
