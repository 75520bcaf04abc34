import { useState } from "preact/hooks";
import { call } from "../../core/api.js";
import { html } from "../../core/html.js";
import { Dialog } from "../../parts/dialog.js";

/** Asks for the inputs of a workflow, and starts a run. `onStarted` gets the new run. */
export function Start({ id, declared, close, onStarted }) {
  const inputs = Object.entries(declared);
  const [texts, setTexts] = useState(() => Object.fromEntries(inputs.map(([name, input]) => [name, textOf(input)])));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const start = async (event) => {
    event.preventDefault();
    setProblem("");
    setBusy(true);
    try {
      const values = valuesOf(inputs, texts);
      onStarted(await call("POST /workflows/{workflow_id}/runs", { workflow_id: id, inputs: values }));
      close();
    } catch (error) {
      setProblem(error.message);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Start a run" close=${close}>
    <form class="stack" onSubmit=${start}>
      ${inputs.length === 0 ? html`<p class="hint">This workflow takes no inputs.</p>` : null}
      ${inputs.map(
        ([name, input]) =>
          html`<${Input} key=${name} name=${name} input=${input} text=${texts[name]} set=${(text) => setTexts({ ...texts, [name]: text })} />`,
      )}
      ${problem ? html`<p class="problem" role="alert">${problem}</p>` : null}
      <div class="buttons"><button class="primary" disabled=${isBusy}>${isBusy ? "Starting…" : "Start"}</button></div>
    </form>
  <//>`;
}

function Input({ name, input: { type, required }, text, set }) {
  const take = (event) => set(event.target.value);
  const label = html`${name} <small>${isText(type) ? "text" : isJson(type) ? `${type} as JSON` : type}${required ? "" : ", optional"}</small>`;
  if (type === "boolean")
    return html`<label>${label}<select value=${text} required=${required} onChange=${take}><option value=""></option><option value="true">true</option><option value="false">false</option></select></label>`;
  if (type === "number")
    return html`<label>${label}<input type="number" step="any" required=${required} value=${text} onInput=${take} /></label>`;
  return html`<label>${label}<textarea rows=${isText(type) ? 2 : 4} required=${required} value=${text} onInput=${take}></textarea></label>`;
}

const isText = (type) => type === "text" || type === "string";
const isJson = (type) => !isText(type) && type !== "number" && type !== "boolean";

/** Returns what the field of an input shows first. */
function textOf({ type, default: value }) {
  if (value === undefined || value === null) return "";
  return isText(type) ? String(value) : JSON.stringify(value);
}

/** Returns the values of the fields. An empty field is left out, so that the default of its input applies. */
function valuesOf(inputs, texts) {
  const values = {};
  for (const [name, { type }] of inputs) {
    if (texts[name] === "") continue;
    if (isText(type)) values[name] = texts[name];
    else
      try {
        values[name] = JSON.parse(texts[name]);
      } catch {
        throw new Error(`${name} is not JSON. A text stands in quotes.`);
      }
  }
  return values;
}
