// What a step of a workflow reads: `$steps.a.text` as a whole text, `{{steps.a.text}}` inside one, and `steps.a.text` in a condition.

const whole = /^\$((?:steps|inputs)(?:\.[\w-]+)+)$/;
const hole = /\{\{\s*((?:steps|inputs)(?:\.[\w-]+)+)\s*\}\}/g;
const inCondition = /(?<![\w.-])(?:steps|inputs)(?:\.[\w-]+)+/g;
const quoted = /"(?:[^"\\]|\\.)*"|'[^']*'/g;

/** Returns the paths that a step reads, such as `steps.a.text`, each once. */
export function pathsOf({ kind, config = {}, inputs = {}, when }) {
  const found = new Set();
  takeWork({ kind, config }, found);
  takeValue(inputs, found);
  if (typeof when === "string") takeCondition(when, found);
  return [...found];
}

/** Returns the steps of a definition as {id, needs}, with the steps that each names and those that it reads. */
export function graphOf({ steps = [] }) {
  return steps.map((step) => {
    const read = pathsOf(step).flatMap((path) => (path.startsWith("steps.") ? [path.split(".")[1]] : []));
    return { id: step.id, needs: [...new Set([...(step.needs ?? []), ...read])] };
  });
}

/** Returns the value of a path in a run; undefined for one that is not there. */
export function valueAt(path, { inputs, steps }) {
  const [root, ...names] = path.split(".");
  let value = root === "inputs" ? inputs : steps.find(({ step_id }) => step_id === names[0])?.output;
  for (const name of root === "inputs" ? names : names.slice(1)) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value;
}

/** Takes the paths in the config of a step, or of the work of a map's items. */
function takeWork({ kind, config = {} }, found) {
  for (const [name, value] of Object.entries(config)) {
    if (kind === "condition" && name === "expr") takeCondition(String(value), found);
    else if (kind === "map" && name === "step") takeWork(value, found);
    else takeValue(value, found);
  }
}

function takeValue(value, found) {
  if (typeof value === "string") {
    const [, path] = whole.exec(value) ?? [];
    if (path !== undefined) found.add(path);
    else for (const [, inner] of value.matchAll(hole)) found.add(inner);
  } else if (value !== null && typeof value === "object") for (const one of Object.values(value)) takeValue(one, found);
}

function takeCondition(text, found) {
  for (const [path] of text.replace(quoted, "").matchAll(inCondition)) found.add(path);
}
