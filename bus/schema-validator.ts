import type { Ajv, CodeGen, CodeKeywordDefinition, KeywordCxt, Name, Options } from "ajv";
import { lazily, lazyPackage } from "./lazily.ts";

/** Ajv, and the code generator of its validators. */
export const ajvPackage = lazyPackage("ajv");

/** Max problems that a validation reports (decision 74); it stops there. */
export const problemsMax = 20;

/** The keywords whose work grows with the value. The schema bounds the work of all others. */
const loopKeywords = ["items", "additionalProperties"];

/**
 * Creates an Ajv that reports every problem of a value, up to `problemsMax` per list or object. Ajv alone would stop at
 * the first one, or report one for each of a hundred thousand items.
 */
export function createAjv(options: Options): Ajv {
  const ajv = new (ajvPackage().Ajv)({ ...options, allErrors: true });
  for (const keyword of loopKeywords) {
    const definition = ajv.getKeyword(keyword) as CodeKeywordDefinition;
    ajv.removeKeyword(keyword);
    // Keeps the position of the keyword's errors among the others.
    const before = keyword === "items" ? "uniqueItems" : "properties";
    ajv.addKeyword({
      ...definition,
      before,
      code: (context, type) => definition.code(withBoundedLoops(context), type),
    });
  }
  return ajv;
}

/** The variable of Ajv's validators that counts errors. */
const errors = lazily(() => new (ajvPackage().Name)("errors"));

/**
 * Returns the context of a keyword whose loops end after enough errors. Errors that anyOf has discarded do not count.
 */
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
