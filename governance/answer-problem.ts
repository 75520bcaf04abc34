import type { Env } from "../bus/env.ts";
import { JsonFault, parseStrictJson } from "../bus/strict-json.ts";
import type { AnswerSchema } from "../manifests/answer-schema.ts";
import { compiledSchema, type SchemaNode } from "./compiled-schema.ts";
import { schemaMisfit } from "./schema-walk.ts";

/** The result of checking a reply against its schema: the JSON text, or the problem in words for the model. */
export type CheckedAnswer =
  | { readonly ok: true; readonly json: string; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Validates a reply of a model against its schema. Removes a Markdown code fence, which many models add. */
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
  // A schema with an unsupported keyword was already refused when the manifest was read, so `root` is not null.
  const misfit = await schemaMisfit(compiledSchema(schema).root as SchemaNode, value, env);
  if (misfit === null) return { ok: true, json, value };
  const at = misfit.path.join(".").slice(0, 200);
  const about = misfit.keyword === "additionalProperties" ? ` (${misfit.about})`.slice(0, 100) : "";
  return { ok: false, problem: `${at === "" ? "the answer" : at} ${misfit.message}${about}` };
}
