import type { Env } from "../bus/env.ts";
import { JsonFault, parseStrictJson } from "../bus/strict-json.ts";
import type { AnswerSchema } from "../manifests/answer-schema.ts";
import { compiledSchema, type SchemaNode } from "./compiled-schema.ts";
import { schemaMisfit } from "./schema-walk.ts";

/** An answer held against its schema: its JSON text, or what is wrong with it in words for the model. */
export type CheckedAnswer =
  | { readonly ok: true; readonly json: string; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Looks at an answer of a model. Models that are told in words like to put a fence around it, which is taken away. */
export async function checkAnswer(
  { schema }: AnswerSchema,
  text: string,
  env: Pick<Env, "defer">,
): Promise<CheckedAnswer> {
  const json = /^\s*```(?:json)?\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
  let value: unknown;
  try {
    value = parseStrictJson(json);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return { ok: false, problem: `the JSON ${error.message}` };
  }
  // A schema with a keyword that cannot be walked was refused when it was read.
  const misfit = await schemaMisfit(compiledSchema(schema).root as SchemaNode, value, env);
  if (misfit === null) return { ok: true, json, value };
  const at = misfit.path.join(".").slice(0, 200);
  const about = misfit.keyword === "additionalProperties" ? ` (${misfit.about})`.slice(0, 100) : "";
  return { ok: false, problem: `${at === "" ? "the answer" : at} ${misfit.message}${about}` };
}
