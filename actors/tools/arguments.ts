import type { Env } from "../../bus/env.ts";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import { argumentsProblem } from "../../governance/arguments-problem.ts";
import type { ToolSpec } from "../../manifests/registries.ts";
import { type ToolResult, toolError } from "./tool.ts";

/** Max characters of one call's arguments: enough for the largest file that a tool writes, mostly escaped. */
const argumentsCharsMax = 2_000_000;

/**
 * Returns the arguments of a reply's calls for the log and for people: parsed, or as text if they are not valid JSON. The total
 * that is parsed is limited to that of one call. Tools receive arguments parsed and checked separately.
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

/** Valid arguments, or the refusal for the model. */
export type CheckedArguments =
  | { readonly ok: true; readonly args: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly refusal: ToolResult };

/** Parses a model's arguments and validates them against the tool's schema. Never throws for invalid text. */
export async function checkArguments(
  tool: Pick<ToolSpec, "name" | "parameters">,
  text: string,
  env: Pick<Env, "defer">,
): Promise<CheckedArguments> {
  if (text.length > argumentsCharsMax) return refuse(`the arguments are longer than ${argumentsCharsMax} characters`);
  let args: unknown;
  try {
    args = readArguments(text, prototypeKeys);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return refuse(`the JSON of the arguments ${error.message}`);
  }
  const problem = await argumentsProblem(tool, args, env);
  return problem === null ? { ok: true, args: args as Record<string, unknown> } : refuse(problem);
}

function readArguments(text: string, refusedKeys?: ReadonlySet<string>): unknown {
  // Some models send an empty text for a tool without parameters.
  return text.trim() === "" ? {} : parseStrictJson(text, refusedKeys && { refusedKeys });
}

/** Keys that are only used to attack a prototype. */
const prototypeKeys: ReadonlySet<string> = new Set(["constructor", "prototype"]);

function refuse(text: string): CheckedArguments {
  return { ok: false, refusal: toolError("invalid_arguments", text) };
}
