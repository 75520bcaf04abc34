import { isRecord, type StepDefinition, type StepWork } from "../../governance/workflows/definition.ts";
import type { KindShape } from "../../governance/workflows/kind-shape.ts";
import { below, Expansion, referenceIn, type Scope, type Tainted } from "../../governance/workflows/references.ts";
import type { WorkflowStepRow } from "../../storage/tables/workflow-runs.ts";

/** The values that the steps of a run read. */
export class RunValues {
  readonly #inputs: Tainted;
  readonly #steps: ReadonlyMap<string, WorkflowStepRow>;
  /** Parsed outputs, by their text. */
  readonly #parsed = new WeakMap<WorkflowStepRow, Readonly<Record<string, unknown>>>();

  constructor(inputs: Tainted, steps: ReadonlyMap<string, WorkflowStepRow>) {
    this.#inputs = inputs;
    this.#steps = steps;
  }

  /** Returns the scope of the outputs of a workflow, or of the `inputs` of a step. */
  scope(): Scope {
    return ({ root, names }) => {
      const { value, taint } = this.#inputs;
      if (root === "inputs") return { value: below(value, names), taint };
      return root === "steps" ? this.#ofStep(names) : null;
    };
  }

  /** Returns the scope of the config of a step; `item` is that of a map. */
  scopeOf(
    inputs: StepDefinition["inputs"],
    item: { readonly value: unknown; readonly index: number; readonly taint: readonly string[] } | null,
  ): Scope {
    const outer = this.scope();
    return (path) => {
      const { root, names } = path;
      if (root === "item") return item && { value: below(item.value, names), taint: item.taint };
      if (root === "index") return item && { value: item.index, taint: [] };
      if (root !== "input") return outer(path);
      const [name = "", ...rest] = names;
      if (!Object.hasOwn(inputs, name)) return null;
      const expansion = new Expansion(outer);
      const value = expansion.of(inputs[name]);
      return { value: below(value, rest), taint: expansion.taint };
    };
  }

  /** True if a step has a value; false for one that was skipped or has failed. */
  came(stepId: string): boolean {
    return this.#steps.get(stepId)?.status === "succeeded";
  }

  #ofStep([id = "", ...names]: readonly string[]): Tainted | null {
    const step = this.#steps.get(id);
    if (step === undefined || step.status !== "succeeded" || step.output === null) return null;
    let output = this.#parsed.get(step);
    if (output === undefined) {
      output = JSON.parse(step.output) as Readonly<Record<string, unknown>>;
      this.#parsed.set(step, output);
    }
    return { value: below(output, names), taint: step.taint };
  }
}

/** Returns the config of a step with its references filled. Throws UnusableValue. */
export function filledConfig(
  { config }: Pick<StepWork, "config">,
  shape: KindShape,
  expansion: Expansion,
  values: RunValues,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => [name, filled(value, shape.forms?.[name], expansion, values)]),
  );
}

function filled(value: unknown, form: string | undefined, expansion: Expansion, values: RunValues): unknown {
  if (form === "literal" || form === "condition" || form === "step") return value;
  if (form === "prompt" && typeof value === "string") {
    const isWhole = referenceIn(value) !== null;
    return expansion.text(isWhole ? `{{${value.slice(1)}}}` : value, true);
  }
  if (form === "each" && Array.isArray(value))
    return value.filter((one) => hasCome(one, values)).map((one) => expansion.of(one));
  return expansion.of(value);
}

/** True unless a value refers to a step without a value. */
function hasCome(value: unknown, values: RunValues): boolean {
  const path = typeof value === "string" ? referenceIn(value) : null;
  return path?.root !== "steps" || values.came(path.names[0] ?? "");
}

/** Returns the result of an item of a map: the value of the first port of its kind. */
export function firstPort({ outputs }: Pick<KindShape, "outputs">, output: unknown): unknown {
  const [port] = outputs;
  return port !== undefined && isRecord(output) ? (output[port.name] ?? null) : null;
}
