import type { ValidateFunction } from "ajv";
import { lazily } from "../bus/lazily.ts";
import { ajvPackage } from "../bus/schema-validator.ts";
import { JsonFault, parseStrictJson } from "../bus/strict-json.ts";
import type { AnswerSchema } from "../manifests/answer-schema.ts";

/** An answer held against its schema: its JSON text, or what is wrong with it in words for the model. */
export type CheckedAnswer =
  | { readonly ok: true; readonly json: string; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Looks at an answer of a model. Models that are told in words like to put a fence around it, which is taken away. */
export function checkAnswer(schema: AnswerSchema, text: string): CheckedAnswer {
  const json = /^\s*```(?:json)?\n([\s\S]*?)\n?```\s*$/.exec(text)?.[1] ?? text;
  let value: unknown;
  try {
    value = parseStrictJson(json);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return { ok: false, problem: `the JSON ${error.message}` };
  }
  const validate = validatorOf(schema);
  if (validate(value)) return { ok: true, json, value };
  const [error] = validate.errors ?? [];
  const at = (error?.instancePath ?? "").slice(1).replaceAll("/", ".").slice(0, 200);
  const about = error?.keyword === "additionalProperties" ? ` (${error.params.additionalProperty})`.slice(0, 100) : "";
  return { ok: false, problem: `${at === "" ? "the answer" : at} ${error?.message ?? "does not fit"}${about}` };
}

// Schemas were read and bounded when their manifests were compiled.
const ajv = lazily(() => new (ajvPackage().Ajv)({ strict: false, ownProperties: true, validateFormats: false }));
const validators = new WeakMap<AnswerSchema, ValidateFunction>();

function validatorOf(schema: AnswerSchema): ValidateFunction {
  let validate = validators.get(schema);
  if (validate === undefined) {
    validate = ajv().compile(schema.tree);
    // Ajv would keep the schema for ever; it is ours to forget when its agent is gone.
    ajv().removeSchema(schema.tree);
    validators.set(schema, validate);
  }
  return validate;
}
