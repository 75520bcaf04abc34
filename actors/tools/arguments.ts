import type { Env } from "../../bus/env.ts";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import { argumentsProblem } from "../../governance/arguments-problem.ts";
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
  // Some models send nothing where a tool needs nothing.
  return text.trim() === "" ? {} : parseStrictJson(text, refusedKeys && { refusedKeys });
}

/** A model that sends these is after something else than the tool. */
const prototypeKeys: ReadonlySet<string> = new Set(["constructor", "prototype"]);

function refuse(text: string): CheckedArguments {
  return { ok: false, refusal: toolError("invalid_arguments", text) };
}
