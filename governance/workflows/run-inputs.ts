import { fits, typeOf, valueBytesMax, type WorkflowDefinition } from "./definition.ts";

/** A value that a run cannot start with. */
export interface InputProblem {
  readonly name: string;
  readonly message: string;
}

/** Returns the inputs of a run with the defaults of its workflow, and the problems of the given values. */
export function readRunInputs(
  { inputs }: Pick<WorkflowDefinition, "inputs">,
  given: Readonly<Record<string, unknown>>,
): { readonly values: Record<string, unknown>; readonly problems: readonly InputProblem[] } {
  const problems: InputProblem[] = [];
  const values: [string, unknown][] = [];
  for (const name of Object.keys(given))
    if (!inputs.has(name))
      problems.push({ name: name.slice(0, 64), message: "the workflow declares no input of this name" });
  for (const [name, { type, required, default: fallback }] of inputs) {
    const value = (Object.hasOwn(given, name) ? given[name] : null) ?? fallback;
    if (value === null && required) problems.push({ name, message: "the input is missing" });
    else if (!fits(typeOf(value), type)) problems.push({ name, message: `the input is no ${type}` });
    values.push([name, value]);
  }
  const all = Object.fromEntries(values);
  if (Buffer.byteLength(JSON.stringify(all)) > valueBytesMax)
    problems.push({ name: "", message: `the inputs have more than ${valueBytesMax} bytes` });
  return { values: all, problems };
}
