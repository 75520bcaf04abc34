import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import { type ToolResult, toolError } from "./tool.ts";

/** Characters of one call's arguments: room for the largest file that a tool writes, with most of it escaped. */
const argumentsCharsMax = 2_000_000;

/**
 * The arguments of an answer's calls for the log and for people: the value, or the text where no tool would take it. What a tool
 * gets is checked from the text itself. Of all of them together no more is parsed than one call may have.
 */
export function loggedArguments(texts: readonly string[]): unknown[] {
  let chars = 0;
  return texts.map((text) => {
    chars += text.length;
    if (chars > argumentsCharsMax) return text;
    try {
      return readArguments(text);
    } catch (error) {
      if (error instanceof JsonFault) return text;
      throw error;
    }
  });
}

/** Arguments that fit their tool, or what to tell the model instead of calling it. */
export type CheckedArguments =
  | { readonly ok: true; readonly args: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly refusal: ToolResult };

/** Reads the text that a model gave as arguments and holds it against the tool's schema. Never throws for what the text says. */
export function checkArguments(tool: Pick<ToolSpec, "name" | "parameters">, text: string): CheckedArguments {
  if (text.length > argumentsCharsMax) return refuse(`the arguments are longer than ${argumentsCharsMax} characters`);
  let args: unknown;
  try {
    args = readArguments(text, prototypeKeys);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return refuse(`the JSON of the arguments ${error.message}`);
  }
  const problem = argumentsProblem(tool, args);
  return problem === null ? { ok: true, args: args as Record<string, unknown> } : refuse(problem);
}

/** What is wrong with arguments as a value, in words for the model; null when they fit their tool. */
export function argumentsProblem(tool: Pick<ToolSpec, "parameters">, args: unknown): string | null {
  if (typeof args !== "object" || args === null || Array.isArray(args)) return "the arguments are not an object";
  const validate = validatorOf(tool);
  return validate(args) ? null : describe(validate.errors?.[0]);
}

function readArguments(text: string, refusedKeys?: ReadonlySet<string>): unknown {
  // Some models send nothing where a tool needs nothing.
  return text.trim() === "" ? {} : parseStrictJson(text, refusedKeys && { refusedKeys });
}

/** A model that sends these is after something else than the tool. */
const prototypeKeys: ReadonlySet<string> = new Set(["constructor", "prototype"]);

const ajv = new Ajv({ strict: true, ownProperties: true });
const validators = new WeakMap<object, ValidateFunction>();

function validatorOf(tool: Pick<ToolSpec, "parameters">): ValidateFunction {
  let validate = validators.get(tool.parameters);
  if (validate === undefined) {
    validate = ajv.compile(tool.parameters);
    // Ajv would keep the schema for ever; it is ours to forget when its tool is gone.
    ajv.removeSchema(tool.parameters);
    validators.set(tool.parameters, validate);
  }
  return validate;
}

/** The first error as a sentence that begins with the field: `edits.0.old_string must NOT have …`. */
function describe(error: ErrorObject | undefined): string {
  const field = (error?.instancePath ?? "").slice(1).replaceAll("/", ".");
  const under = (name: unknown) => (field === "" ? String(name) : `${field}.${name}`);
  if (error?.keyword === "required") return `${under(error.params.missingProperty)} is missing`;
  if (error?.keyword === "additionalProperties")
    return `${under(String(error.params.additionalProperty).slice(0, 100))} is not an argument of this tool`;
  if (error?.keyword === "enum") return `${field} must be one of ${error.params.allowedValues.join(", ")}`;
  return `${field || "the value"} ${error?.message ?? "does not fit"}`;
}

function refuse(text: string): CheckedArguments {
  return { ok: false, refusal: toolError("invalid_arguments", text) };
}
