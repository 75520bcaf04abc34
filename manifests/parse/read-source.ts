import type { Document, LineCounter } from "yaml";
import { lazyPackage } from "../../bus/lazily.ts";
import { problemsMax } from "../../bus/schema-validator.ts";
import { objectMembersMax, valuesMax } from "../../bus/strict-json.ts";
import { depthMax, manifestBytesMax, manifestMembersMax } from "../bounds.ts";
import { type Path, type Problem, refuseProblems } from "../problems.ts";

// Converts text or a value of unknown origin to plain JSON that no other code holds. A text is YAML 1.2, which includes
// JSON. The YAML library composes nodes recursively, and deep nesting would crash the process. So depth and size are
// checked during tokenization, before any composition.

const yaml = lazyPackage("yaml");

const lexemesMax = 50_000;
const aliasesMax = 100;

/**
 * Returns the JSON value of a YAML or JSON text. Throws invalid_manifest for anything that parsers might read
 * differently.
 */
export function readText(text: string): unknown {
  if (Buffer.byteLength(text) > manifestBytesMax) refuse("too_long", `is longer than ${manifestBytesMax} bytes`);
  const lines = new (yaml().LineCounter)();
  const document = compose(text, lines);
  const problems: Problem[] = [];
  const report = (offset: number | undefined, what: string) => {
    const { line, col } = lines.linePos(offset ?? 0);
    problems.push({ loc: [], msg: `Line ${line}, column ${col}: ${what}.`, type: "syntax" });
  };
  for (const { pos, message } of [...document.errors, ...document.warnings])
    report(pos[0], plainWords.get(message) ?? message);
  if (problems.length === 0) checkNodes(document, report);
  refuseProblems(problems);
  try {
    return document.toJS({ maxAliasCount: aliasesMax });
  } catch (cause) {
    return refuse("syntax", "repeats its anchors too often", cause);
  }
}

/** Replacements for the YAML library's messages about frequent mistakes, in the user's terms. */
const plainWords: ReadonlyMap<string, string> = new Map([
  [
    "Nested mappings are not allowed in compact mappings",
    "the line has a second colon followed by a blank; put a text with one in quotes",
  ],
  [
    "Block collections are not allowed within flow collections",
    "there is a second colon followed by a blank between two commas or brackets; put a text with one in quotes",
  ],
]);

/** Returns a copy of `value` that is plain JSON. Throws invalid_manifest. */
export function copyJson(value: unknown): unknown {
  const problems: Problem[] = [];
  const copy = new JsonCopy(problems).of(value);
  refuseProblems(problems);
  return copy;
}

/** Returns null if the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function compose(text: string, lines: LineCounter): Document {
  const composer = new (yaml().Composer)({
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
  const { Lexer, Parser } = yaml();
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

/**
 * Reports repeated keys, keys without a value in braces, too many aliases, and whole numbers that JSON numbers cannot
 * represent.
 */
function checkNodes(document: Document, report: (offset: number | undefined, what: string) => void): void {
  const { isScalar, visit } = yaml();
  let aliases = 0;
  visit(document, {
    Map(_key, map) {
      const seen = new Set<unknown>();
      for (const { key, value } of map.items) {
        const name = isScalar(key) ? key.value : key;
        const offset = isScalar(key) ? key.range?.[0] : undefined;
        if (seen.has(name)) report(offset, `the key ${JSON.stringify(name)} occurs twice`);
        if (map.flow && value === null)
          report(
            offset,
            `the key ${JSON.stringify(name)} has no value; between braces a comma ends a text, so put a text with a comma in quotes`,
          );
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

/** Copies a tree and counts its values: shared or circular parts are copied repeatedly until a limit stops them. */
class JsonCopy {
  readonly #problems: Problem[];
  /** The current position in the manifest. */
  readonly #path: (string | number)[] = [];
  #values = 0;
  #members = 0;

  constructor(problems: Problem[]) {
    this.#problems = problems;
  }

  of(value: unknown): unknown {
    if (++this.#values > valuesMax) return refuse("too_long", `holds more than ${valuesMax} values`);
    if (typeof value === "string") return this.#text(value);
    if (typeof value === "number" && !Number.isFinite(value)) return this.#add("is not a finite number");
    if (value === null || typeof value === "number" || typeof value === "boolean") return value;
    if (typeof value !== "object") return this.#add("is not JSON");
    if (this.#path.length >= depthMax)
      return this.#add(`is nested deeper than ${depthMax}`, "syntax", this.#path.slice(0, 8));
    if (Array.isArray(value)) return value.map((item, at) => this.#below(at, item));
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return this.#add("is not a plain object");
    return this.#object(Object.entries(value));
  }

  #object(members: readonly [string, unknown][]): unknown {
    this.#members += members.length;
    if (this.#members > manifestMembersMax) return refuse("too_long", `holds more than ${manifestMembersMax} members`);
    if (members.length > objectMembersMax) return this.#add(`has more than ${objectMembersMax} members`, "too_long");
    const copy: Record<string, unknown> = {};
    for (const [key, item] of members) {
      this.#text(key, key);
      if (key === "__proto__") this.#add("is a key that is not allowed", "extra_forbidden", [...this.#path, key]);
      else copy[key] = this.#below(key, item);
    }
    return copy;
  }

  #below(step: string | number, item: unknown): unknown {
    this.#path.push(step);
    const copy = this.of(item);
    this.#path.pop();
    return copy;
  }

  /** `key` is given if the text is a key. */
  #text(value: string, ...key: string[]): string {
    if (value.includes("\0") || !value.isWellFormed())
      this.#add("holds a NUL character or half of a surrogate pair", "syntax", [...this.#path, ...key]);
    return value;
  }

  #add(what: string, type: Problem["type"] = "syntax", loc: Path = [...this.#path]): null {
    this.#problems.push({ loc, msg: `The value ${what}.`, type });
    if (this.#problems.length === problemsMax) refuseProblems(this.#problems);
    return null;
  }
}

function refuse(type: Problem["type"], what: string, cause?: unknown): never {
  refuseProblems([{ loc: [], msg: `The manifest ${what}.`, type }], cause);
  throw new Error("a refusal without a problem");
}
