import type { Env } from "../../bus/env.ts";
import { argumentsProblem } from "../arguments-problem.ts";
import {
  fits,
  isRecord,
  type Port,
  type PortType,
  type StepDefinition,
  typeOf,
  type WorkflowDefinition,
} from "./definition.ts";
import type { KindShape, KindShapes } from "./kind-shape.ts";
import { Problems } from "./problems.ts";
import { checkInnerFields, eachReference, readDefinition, readWork } from "./read-definition.ts";
import { eachPath, type Path, UnreadableReference } from "./references.ts";

/** The ports of a step. */
export interface StepPorts {
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
}

/** The result of a check. */
export interface Checked {
  /** Null if the document cannot be read at all. */
  readonly definition: WorkflowDefinition | null;
  /** By step. */
  readonly ports: ReadonlyMap<string, StepPorts>;
  readonly problems: Problems;
}

/** Checks a document by itself: whether its manifests and tools exist is for the caller. */
export async function checkDefinition(given: unknown, kinds: KindShapes, env: Pick<Env, "defer">): Promise<Checked> {
  const problems = new Problems();
  const definition = readDefinition(given, kinds, problems);
  const ports = new Map<string, StepPorts>();
  if (definition === null) return { definition, ports, problems };
  const byId = new Map(definition.steps.map((step) => [step.id, step]));
  for (const step of definition.steps) ports.set(step.id, portsOf(step, kinds));
  for (const [name, { type, default: fallback }] of definition.inputs)
    if (fallback !== null && !fits(typeOf(fallback), type))
      problems.add("", `inputs.${name}.default`, "type_mismatch", `the default is no ${type}`);
  for (const [at, step] of definition.steps.entries())
    await checkStep(step, `steps.${at}`, { definition, byId, ports, kinds, problems, env });
  checkOutputs(definition, { byId, ports, problems });
  checkCycles(definition, problems);
  return { definition, ports, problems };
}

interface Checking {
  readonly definition: WorkflowDefinition;
  readonly byId: ReadonlyMap<string, StepDefinition>;
  readonly ports: ReadonlyMap<string, StepPorts>;
  readonly kinds: KindShapes;
  readonly problems: Problems;
  readonly env: Pick<Env, "defer">;
}

function portsOf({ kind, inputs }: StepDefinition, kinds: KindShapes): StepPorts {
  const shape = kinds.get(kind);
  if (shape === undefined) return { inputs: [], outputs: [] };
  const own = Object.keys(inputs).map((name): Port => ({ name, type: "any", required: true }));
  return { inputs: shape.inputs ?? own, outputs: shape.outputs };
}

async function checkStep(step: StepDefinition, path: string, checking: Checking): Promise<void> {
  const { byId, kinds, problems } = checking;
  const { id } = step;
  for (const need of step.needs)
    if (!byId.has(need))
      problems.add(id, `${path}.needs`, "unknown_step", `no step has the id ${JSON.stringify(need.slice(0, 64))}`);
  const shape = kinds.get(step.kind);
  eachReference(
    step,
    kinds,
    (found, field, isWhole) => checkPath(found, `${path}.${field}`, step, isWhole, wantedOf(shape, field), checking),
    (field, message) => problems.add(id, `${path}.${field}`, "invalid_reference", message),
  );
  if (shape === undefined) return;
  checkInputs(step, path, shape, problems);
  await checkConfig(step.config, `${path}.config`, id, shape, checking);
  const inner = Object.entries(shape.forms ?? {}).find(([, form]) => form === "step")?.[0];
  if (inner !== undefined) await checkInner(step.config[inner], `${path}.config.${inner}`, id, checking);
}

function wantedOf(shape: KindShape | undefined, field: string): PortType {
  const [where, name = ""] = field.split(".");
  if (where === "config") return (field.split(".").length === 2 ? shape?.types?.[name] : undefined) ?? "any";
  return (where === "inputs" ? shape?.inputs?.find((port) => port.name === name)?.type : undefined) ?? "any";
}

function checkInputs({ id, inputs }: StepDefinition, path: string, shape: KindShape, problems: Problems): void {
  if (shape.inputs === null) return;
  for (const { name, required } of shape.inputs)
    if (required && !Object.hasOwn(inputs, name))
      problems.add(id, `${path}.inputs`, "missing_input", `the kind ${shape.kind} needs the input ${name}`);
  for (const name of Object.keys(inputs))
    if (!shape.inputs.some((port) => port.name === name))
      problems.add(id, `${path}.inputs.${name}`, "unknown_port", `the kind ${shape.kind} has no input ${name}`);
}

async function checkConfig(
  config: Readonly<Record<string, unknown>>,
  path: string,
  id: string,
  { config: schema }: KindShape,
  { problems, env }: Checking,
): Promise<void> {
  const problem = await argumentsProblem({ parameters: schema as unknown as Record<string, unknown> }, config, env);
  if (problem !== null)
    problems.add(id, path, "invalid_field", problem.replace("an argument of this tool", "a field of this kind"));
}

/** Checks the work of the items of a map. */
async function checkInner(value: unknown, path: string, id: string, checking: Checking): Promise<void> {
  const { kinds, problems } = checking;
  if (!isRecord(value)) return;
  checkInnerFields(value, path, id, problems);
  const work = readWork(value, path, id, kinds, problems);
  const shape = kinds.get(work.kind);
  if (shape === undefined) return;
  if (shape.isInner !== true)
    problems.add(id, `${path}.kind`, "invalid_field", `the items of a map cannot be of the kind ${work.kind}`);
  await checkConfig(work.config, `${path}.config`, id, shape, checking);
}

function checkPath(
  { root, names }: Path,
  where: string,
  step: Pick<StepDefinition, "id" | "inputs" | "kind">,
  isWhole: boolean,
  wanted: PortType,
  { definition, byId, ports, kinds, problems }: Pick<Checking, "definition" | "byId" | "ports" | "kinds" | "problems">,
): void {
  const [first = "", second = ""] = names;
  let given: PortType = "any";
  if (root === "inputs") {
    const input = definition.inputs.get(first);
    if (input === undefined) problems.add(step.id, where, "missing_input", `the workflow declares no input ${first}`);
    else if (names.length === 1) given = input.type;
  } else if (root === "input") {
    if (where.includes(".inputs."))
      problems.add(step.id, where, "invalid_reference", "the inputs of a step cannot read each other");
    else if (!Object.hasOwn(step.inputs, first))
      problems.add(step.id, where, "missing_input", `the step has no input ${first}`);
  } else if (root === "steps") {
    const port = ports.get(first)?.outputs.find(({ name }) => name === second);
    const source = byId.get(first);
    if (source === undefined)
      problems.add(step.id, where, "unknown_step", `no step has the id ${JSON.stringify(first.slice(0, 64))}`);
    else if (kinds.has(source.kind) && port === undefined) {
      const known = (ports.get(first)?.outputs ?? []).map(({ name }) => name).join(", ");
      problems.add(step.id, where, "unknown_port", `the step ${first} has no output ${second}; it has ${known}`);
    } else if (names.length === 2) given = port?.type ?? "any";
  } else if (!where.includes(".config.step."))
    problems.add(step.id, where, "invalid_reference", `${root} is only there in the step of a map`);
  if (isWhole && !fits(given, wanted))
    problems.add(
      step.id,
      where,
      "type_mismatch",
      `${[root, ...names].join(".")} is ${given}, and ${wanted} is expected`,
    );
}

function checkOutputs(
  definition: WorkflowDefinition,
  { byId, ports, problems }: Pick<Checking, "byId" | "ports" | "problems">,
): void {
  const nowhere = { id: "", inputs: {}, kind: "" };
  const kinds = new Map([...byId.values()].map(({ kind }) => [kind, {} as KindShape]));
  const checking = { definition, byId, ports, kinds, problems };
  for (const [name, value] of Object.entries(definition.outputs))
    try {
      eachPath(value, (path, isWhole) => checkPath(path, `outputs.${name}`, nowhere, isWhole, "any", checking));
    } catch (error) {
      if (!(error instanceof UnreadableReference)) throw error;
      problems.add("", `outputs.${name}`, "invalid_reference", error.message);
    }
}

/** Reports the steps that need each other in a circle. */
function checkCycles({ steps }: WorkflowDefinition, problems: Problems): void {
  const left = new Map(steps.map(({ id, needs }) => [id, new Set(needs)]));
  for (let found = true; found; ) {
    found = false;
    for (const [id, needs] of left) {
      if ([...needs].some((need) => left.has(need))) continue;
      left.delete(id);
      found = true;
    }
  }
  if (left.size === 0) return;
  const names = [...left.keys()].slice(0, 20).join(", ");
  for (const [at, { id }] of steps.entries())
    if (left.has(id)) {
      problems.add(id, `steps.${at}.needs`, "cycle", `these steps need each other: ${names}`);
      return;
    }
}
