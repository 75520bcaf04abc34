import type { Ajv, CodeGen, CodeKeywordDefinition, KeywordCxt, Name, Options } from "ajv";
import { lazily, lazyPackage } from "./lazily.ts";

/** Ajv itself, and what its validators are written with. */
export const ajvPackage = lazyPackage("ajv");

/** Validation stops at this many problems (decision 74), and a refusal tells no more. */
export const problemsMax = 20;

/** The keywords whose work grows with the value. That of the others is bounded by the schema. */
const loopKeywords = ["items", "additionalProperties"];

/**
 * Ajv that tells every problem of a value, until a list or an object has `problemsMax` of them: the rest of it is not looked at.
 * On its own Ajv stops at the first one, or makes one for each of a hundred thousand items.
 */
export function createAjv(options: Options): Ajv {
  const ajv = new (ajvPackage().Ajv)({ ...options, allErrors: true });
  for (const keyword of loopKeywords) {
    const definition = ajv.getKeyword(keyword) as CodeKeywordDefinition;
    ajv.removeKeyword(keyword);
    // Where its errors stand among the others stays as it was.
    const before = keyword === "items" ? "uniqueItems" : "properties";
    ajv.addKeyword({
      ...definition,
      before,
      code: (context, type) => definition.code(withBoundedLoops(context), type),
    });
  }
  return ajv;
}

/** How Ajv's validators call the number of errors so far. */
const errors = lazily(() => new (ajvPackage().Name)("errors"));

/** The context of a keyword whose loops end when they have found enough. Errors within anyOf that were taken back do not count. */
function withBoundedLoops(context: KeywordCxt): KeywordCxt {
  const { gen } = context;
  const { _ } = ajvPackage();
  const before = gen.const("before", errors());
  const bounded =
    (body: (name: Name) => void) =>
    (name: Name): void => {
      body(name);
      gen.if(_`${errors()} - ${before} >= ${problemsMax}`, () => gen.break());
    };
  const loops: Pick<CodeGen, "forRange" | "forIn"> = {
    forRange: (name, from, to, body, kind) => gen.forRange(name, from, to, bounded(body), kind),
    forIn: (name, object, body, kind) => gen.forIn(name, object, bounded(body), kind),
  };
  return Object.assign(Object.create(context), { gen: Object.assign(Object.create(gen), loops) });
}
