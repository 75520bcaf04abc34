import { eachPathOf, readCondition } from "./condition.ts";
import {
  definitionBytesMax,
  type InputDefinition,
  isName,
  isRecord,
  itemsMax,
  type PortType,
  type Retry,
  type StepDefinition,
  type StepWork,
  stepsMax,
  type WorkflowDefinition,
} from "./definition.ts";
import type { KindShapes } from "./kind-shape.ts";
import type { Problems } from "./problems.ts";
import { eachPath, type Path, UnreadableReference } from "./references.ts";

// Reads the document of a workflow field by field. An unknown field, or a value of the wrong type, is a problem. Reading continues after a
// problem, so that one check finds all mistakes.

const topFields = ["inputs", "steps", "outputs", "limits"];
const inputFields = ["type", "required", "default"];
const stepFields = ["id", "kind", "label", "needs", "when", "config", "inputs", "retry", "timeout_seconds", "on_error"];
const innerFields = ["kind", "config", "retry", "timeout_seconds", "on_error"];
const namesMax = 100;
const labelCharsMax = 200;
const types: Readonly<Record<string, PortType>> = {
  ...{ text: "text", string: "text", number: "number", boolean: "boolean" },
  ...{ list: "list", object: "object", any: "any" },
};
const noRetry: Retry = { max: 0, backoff_seconds: 10 };

/** Reads a document. Null if it is too large or no object. */
export function readDefinition(given: unknown, kinds: KindShapes, problems: Problems): WorkflowDefinition | null {
  if (!isRecord(given)) {
    problems.add("", "", "invalid_field", "the definition is no object");
    return null;
  }
  if (Buffer.byteLength(JSON.stringify(given)) > definitionBytesMax) {
    problems.add("", "", "too_large", `the definition has more than ${definitionBytesMax} bytes`);
    return null;
  }
  only(given, topFields, "", "", problems);
  return {
    inputs: readInputs(given.inputs, problems),
    steps: readSteps(given.steps, kinds, problems),
    outputs: readNamed(given.outputs, "outputs", "", problems),
    limits: readLimits(given.limits, problems),
  };
}

function readInputs(given: unknown, problems: Problems): Map<string, InputDefinition> {
  const inputs = new Map<string, InputDefinition>();
  for (const [name, value] of Object.entries(readNamed(given, "inputs", "", problems))) {
    const path = `inputs.${name}`;
    if (!isRecord(value)) {
      problems.add("", path, "invalid_field", "an input is an object with a type");
      continue;
    }
    only(value, inputFields, path, "", problems);
    const type = typeof value.type === "string" && Object.hasOwn(types, value.type) ? types[value.type] : undefined;
    if (type === undefined)
      problems.add("", `${path}.type`, "invalid_field", `a type is one of ${Object.keys(types).join(", ")}`);
    if (value.required !== undefined && typeof value.required !== "boolean")
      problems.add("", `${path}.required`, "invalid_field", "required is true or false");
    const fallback = value.default ?? null;
    inputs.set(name, { type: type ?? "any", required: value.required === true, default: fallback });
  }
  return inputs;
}

function readSteps(given: unknown, kinds: KindShapes, problems: Problems): StepDefinition[] {
  if (!Array.isArray(given) || given.length === 0) {
    problems.add("", "steps", "invalid_field", "steps is a list of at least one step");
    return [];
  }
  if (given.length > stepsMax) {
    problems.add("", "steps", "too_large", `a workflow has at most ${stepsMax} steps`);
    return [];
  }
  const steps: StepDefinition[] = [];
  for (const [at, value] of given.entries()) {
    const path = `steps.${at}`;
    if (!isRecord(value) || typeof value.id !== "string" || !isName(value.id)) {
      const words = "a step is an object whose id is 1 to 64 letters, digits, _ and -, with a letter first";
      problems.add("", `${path}.id`, "invalid_field", words);
      continue;
    }
    steps.push(readStep(value as StepDocument, path, kinds, problems));
  }
  const seen = new Set<string>();
  for (const [at, { id }] of steps.entries()) {
    if (seen.has(id)) problems.add(id, `steps.${at}.id`, "duplicate_id", `another step has the id ${id}`);
    seen.add(id);
  }
  return steps;
}

type StepDocument = Readonly<Record<string, unknown>> & { readonly id: string };

function readStep(value: StepDocument, path: string, kinds: KindShapes, problems: Problems): StepDefinition {
  const { id } = value;
  only(value, stepFields, path, id, problems);
  const wrong = (field: string, words: string) => problems.add(id, `${path}.${field}`, "invalid_field", words);
  const isLabel = typeof value.label === "string" && value.label.length <= labelCharsMax;
  if (value.label !== undefined && !isLabel) wrong("label", `a label is a text of at most ${labelCharsMax} characters`);
  const named = value.needs ?? [];
  const isList = Array.isArray(named) && named.length <= stepsMax && named.every((one) => typeof one === "string");
  if (!isList) wrong("needs", "needs is a list of ids of steps");
  const isWhen = value.when === undefined || typeof value.when === "string";
  if (!isWhen) wrong("when", "when is a condition");
  const when = typeof value.when === "string" ? value.when : null;
  const inputs = readNamed(value.inputs, `${path}.inputs`, id, problems);
  const work = readWork(value, path, id, kinds, problems);
  const read = new Set<string>(isList ? (named as string[]) : []);
  const note = ({ root, names }: Path) => {
    if (root === "steps" && names[0] !== undefined) read.add(names[0]);
  };
  eachReference({ when, inputs, ...work }, kinds, note, () => {});
  return {
    ...work,
    id,
    label: isLabel ? (value.label as string) : null,
    needs: [...read],
    when,
    inputs,
  };
}

/** Reads the fields that a step and the work of a map's items share. */
export function readWork(
  value: Readonly<Record<string, unknown>>,
  path: string,
  id: string,
  kinds: KindShapes,
  problems: Problems,
): StepWork {
  const wrong = (field: string, words: string) => problems.add(id, `${path}.${field}`, "invalid_field", words);
  const kind = typeof value.kind === "string" ? value.kind : "";
  if (!kinds.has(kind))
    problems.add(id, `${path}.kind`, "unknown_kind", `no kind of steps is called ${JSON.stringify(kind.slice(0, 64))}`);
  const config = value.config ?? {};
  if (!isRecord(config)) wrong("config", "config is an object");
  const { timeout_seconds = null, on_error = "fail" } = value;
  if (timeout_seconds !== null && !isWhole(timeout_seconds, 1, 86_400))
    wrong("timeout_seconds", "timeout_seconds is 1 to 86400");
  if (on_error !== "fail" && on_error !== "continue") wrong("on_error", "on_error is fail or continue");
  return {
    kind,
    config: isRecord(config) ? config : {},
    retry: readRetry(value.retry, `${path}.retry`, id, problems),
    timeout_seconds: isWhole(timeout_seconds, 1, 86_400) ? timeout_seconds : null,
    on_error: on_error === "continue" ? "continue" : "fail",
  };
}

function readRetry(given: unknown, path: string, id: string, problems: Problems): Retry {
  if (given === undefined) return noRetry;
  if (!isRecord(given)) {
    problems.add(id, path, "invalid_field", "retry is an object");
    return noRetry;
  }
  only(given, ["max", "backoff_seconds"], path, id, problems);
  const { max = noRetry.max, backoff_seconds = noRetry.backoff_seconds } = given;
  if (!isWhole(max, 0, 10)) problems.add(id, `${path}.max`, "invalid_field", "max is 0 to 10");
  if (!isWhole(backoff_seconds, 1, 3_600))
    problems.add(id, `${path}.backoff_seconds`, "invalid_field", "backoff_seconds is 1 to 3600");
  return {
    max: isWhole(max, 0, 10) ? max : 0,
    backoff_seconds: isWhole(backoff_seconds, 1, 3_600) ? backoff_seconds : noRetry.backoff_seconds,
  };
}

function readLimits(given: unknown, problems: Problems): WorkflowDefinition["limits"] {
  if (given !== undefined && !isRecord(given)) problems.add("", "limits", "invalid_field", "limits is an object");
  const limits = isRecord(given) ? given : {};
  only(limits, ["max_cost_usd", "max_wall_clock_seconds"], "limits", "", problems);
  const { max_cost_usd = null, max_wall_clock_seconds = null } = limits;
  const isCost = typeof max_cost_usd === "number" && max_cost_usd > 0 && max_cost_usd <= 1_000;
  if (max_cost_usd !== null && !isCost)
    problems.add("", "limits.max_cost_usd", "invalid_field", "max_cost_usd is above 0 and at most 1000");
  const isTime = isWhole(max_wall_clock_seconds, 1, 60 * 86_400);
  if (max_wall_clock_seconds !== null && !isTime)
    problems.add("", "limits.max_wall_clock_seconds", "invalid_field", "max_wall_clock_seconds is 1 to 5184000");
  return {
    max_cost_usd: isCost ? max_cost_usd : null,
    max_wall_clock_seconds: isTime ? (max_wall_clock_seconds as number) : null,
  };
}

/** The parts of a step that may refer to values. */
type Referring = Pick<StepDefinition, "when" | "inputs" | "kind" | "config">;

/**
 * Calls `found` with every path of a step, the field that holds it and whether it stands alone. `unreadable` gets the fields that cannot be
 * read.
 */
export function eachReference(
  { when, inputs, kind, config }: Referring,
  kinds: KindShapes,
  found: (path: Path, field: string, isWhole: boolean) => void,
  unreadable: (field: string, message: string) => void,
): void {
  const reading = (field: string, work: () => void) => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof UnreadableReference)) throw error;
      unreadable(field, error.message);
    }
  };
  if (when !== null) reading("when", () => eachPathOf(readCondition(when), (path) => found(path, "when", false)));
  for (const [name, value] of Object.entries(inputs))
    reading(`inputs.${name}`, () => eachPath(value, (path, isWhole) => found(path, `inputs.${name}`, isWhole)));
  const shape = kinds.get(kind);
  for (const [name, value] of Object.entries(config)) {
    const field = `config.${name}`;
    const form = shape?.forms?.[name];
    if (form === "literal") continue;
    if (form === "condition") {
      const text = typeof value === "string" ? value : "";
      reading(field, () => eachPathOf(readCondition(text), (path) => found(path, field, false)));
    } else if (form === "step") {
      const inner = isRecord(value) ? value : {};
      const work = {
        when: null,
        inputs: {},
        kind: String(inner.kind),
        config: isRecord(inner.config) ? inner.config : {},
      };
      eachReference(
        work,
        kinds,
        (path, below, isWhole) => found(path, `${field}.${below}`, isWhole),
        (below, message) => unreadable(`${field}.${below}`, message),
      );
    } else reading(field, () => eachPath(value, (path, isWhole) => found(path, field, isWhole)));
  }
}

/** Reads a map of names. Names that are not usable are problems. */
function readNamed(given: unknown, path: string, id: string, problems: Problems): Record<string, unknown> {
  if (given === undefined) return {};
  if (!isRecord(given)) {
    problems.add(id, path, "invalid_field", "it is an object");
    return {};
  }
  const entries = Object.entries(given);
  if (entries.length > namesMax) problems.add(id, path, "too_large", `it has at most ${namesMax} names`);
  for (const [name] of entries)
    if (!isName(name)) {
      const words = "a name is 1 to 64 letters, digits, _ and -, with a letter first";
      problems.add(id, `${path}.${name.slice(0, 64)}`, "invalid_field", words);
    }
  return Object.fromEntries(entries.filter(([name]) => isName(name)).slice(0, namesMax));
}

function only(
  given: Readonly<Record<string, unknown>>,
  fields: readonly string[],
  path: string,
  id: string,
  problems: Problems,
): void {
  for (const name of Object.keys(given))
    if (!fields.includes(name)) {
      const where = path === "" ? name.slice(0, 64) : `${path}.${name.slice(0, 64)}`;
      problems.add(id, where, "invalid_field", `the field is not known; there are ${fields.join(", ")}`);
    }
}

/** Checks the fields of the work of a map's items. */
export function checkInnerFields(
  inner: Readonly<Record<string, unknown>>,
  path: string,
  id: string,
  problems: Problems,
): void {
  only(inner, innerFields, path, id, problems);
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
}

/** Returns why a list cannot be the items of a map; null if it can. */
export function itemsProblem(items: unknown): string | null {
  if (!Array.isArray(items)) return "items_not_a_list: the items of the map are no list";
  return items.length > itemsMax ? `too_many_items: a map has at most ${itemsMax} items` : null;
}
