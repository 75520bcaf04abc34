import { Composer, type Document, isScalar, Lexer, LineCounter, Parser, visit } from "yaml";
import { type Path, type Problem, refuseProblems } from "./problems.ts";

// Text or a value of unknown origin becomes plain JSON that is ours alone. A text is YAML 1.2, of which JSON is a part. The
// YAML library composes nodes recursively and dies, with its process, on deep nesting; so depth and amount are bounded while
// its tokens are made, before anything is composed.

/** Bytes of a manifest's text. */
export const manifestBytesMax = 1024 * 1024;
/** Objects and lists within each other. */
export const depthMax = 64;
const lexemesMax = 50_000;
const aliasesMax = 100;
const nodesMax = 20_000;

/** The JSON value of a text in YAML or JSON. Throws invalid_manifest for anything that two parsers might read differently. */
export function readText(text: string): unknown {
  if (Buffer.byteLength(text) > manifestBytesMax) refuse("too_long", `is longer than ${manifestBytesMax} bytes`);
  const lines = new LineCounter();
  const document = compose(text, lines);
  const problems: Problem[] = [];
  const report = (offset: number | undefined, what: string) => {
    const { line, col } = lines.linePos(offset ?? 0);
    problems.push({ loc: [], msg: `Line ${line}, column ${col}: ${what}.`, type: "syntax" });
  };
  for (const { pos, message } of [...document.errors, ...document.warnings]) report(pos[0], message);
  if (problems.length === 0) checkNodes(document, report);
  refuseProblems(problems);
  try {
    return document.toJS({ maxAliasCount: aliasesMax });
  } catch (cause) {
    return refuse("syntax", "repeats its anchors too often", cause);
  }
}

/** A copy of `value` that holds JSON and nothing else. Throws invalid_manifest. */
export function copyJson(value: unknown): unknown {
  const problems: Problem[] = [];
  const copy = new JsonCopy(problems).of(value, []);
  refuseProblems(problems);
  return copy;
}

function compose(text: string, lines: LineCounter): Document {
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    stringKeys: true,
    uniqueKeys: false,
    resolveKnownTags: false,
    merge: false,
    logLevel: "silent",
  });
  const [document, second] = composer.compose(boundedTokens(text, lines), true, text.length);
  if (second !== undefined) refuse("syntax", "holds more than one document");
  return document as Document;
}

function* boundedTokens(text: string, lines: LineCounter) {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (++lexemes > lexemesMax) refuse("too_long", `has more than ${lexemesMax} words and marks`);
    yield* parser.next(lexeme);
    if (parser.stack.length > depthMax + 2) refuse("syntax", `is nested deeper than ${depthMax}`);
  }
  yield* parser.end();
}

/** Keys that are there twice, aliases beyond the bound, and whole numbers that JSON numbers cannot carry. */
function checkNodes(document: Document, report: (offset: number | undefined, what: string) => void): void {
  let aliases = 0;
  visit(document, {
    Map(_key, map) {
      const seen = new Set<unknown>();
      for (const { key } of map.items) {
        const name = isScalar(key) ? key.value : key;
        const offset = isScalar(key) ? key.range?.[0] : undefined;
        if (seen.has(name)) report(offset, `the key ${JSON.stringify(name)} is there twice`);
        seen.add(name);
      }
    },
    Alias(_key, alias) {
      if (++aliases === aliasesMax + 1) report(alias.range?.[0], `more than ${aliasesMax} aliases`);
    },
    Scalar(_key, { value, range }) {
      if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
        report(range?.[0], "the number is too large to be exact");
    },
  });
}

/** Copies a tree while it counts: what is shared or circular in the source is spelled out until a bound is hit. */
class JsonCopy {
  private nodes = 0;
  private readonly problems: Problem[];

  constructor(problems: Problem[]) {
    this.problems = problems;
  }

  of(value: unknown, loc: Path): unknown {
    if (this.nodes++ === nodesMax) this.add([], `holds more than ${nodesMax} values`, "too_long");
    if (this.nodes > nodesMax) return null;
    if (typeof value === "string") return this.text(value, loc);
    if (typeof value === "number" && !Number.isFinite(value)) return this.add(loc, "is not a finite number", "syntax");
    if (value === null || typeof value === "number" || typeof value === "boolean") return value;
    if (typeof value !== "object") return this.add(loc, "is not JSON", "syntax");
    if (loc.length >= depthMax) return this.add(loc.slice(0, 8), `is nested deeper than ${depthMax}`, "syntax");
    if (Array.isArray(value)) return value.map((item, at) => this.of(item, [...loc, at]));
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return this.add(loc, "is not a plain object", "syntax");
    const copy: Record<string, unknown> = {};
    for (const [key, item] of Object.entries(value)) {
      this.text(key, [...loc, key]);
      if (key === "__proto__") this.add([...loc, key], "is a key that is never taken", "extra_forbidden");
      else copy[key] = this.of(item, [...loc, key]);
    }
    return copy;
  }

  private text(value: string, loc: Path): string {
    if (value.includes("\0") || !value.isWellFormed())
      this.add(loc, "holds a NUL character or half of a surrogate pair", "syntax");
    return value;
  }

  private add(loc: Path, what: string, type: Problem["type"]): null {
    this.problems.push({ loc, msg: `The value ${what}.`, type });
    return null;
  }
}

function refuse(type: Problem["type"], what: string, cause?: unknown): never {
  refuseProblems([{ loc: [], msg: `The manifest ${what}.`, type }], cause);
  throw new Error("a refusal without a problem");
}
