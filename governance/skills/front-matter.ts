import { lazyPackage } from "../../bus/lazily.ts";
import type { Faults } from "./faults.ts";

// Reads the front matter of SKILL.md: YAML between two lines of three hyphens. Its text is hostile until proven otherwise, so size and
// depth are checked during tokenization, and anchors, which can repeat a text without bound, are refused.

const yaml = lazyPackage("yaml");

/** Max characters and levels of front matter. */
const charsMax = 65_536;
const depthMax = 32;
const lexemesMax = 20_000;

/** SKILL.md, divided. */
export interface DividedSkill {
  /** The keys of the front matter; null if it cannot be read. */
  readonly head: Readonly<Record<string, unknown>> | null;
  /** The Markdown after it. */
  readonly body: string;
}

/** Divides SKILL.md into front matter and body. Reports faults. */
export function divideSkill(text: string, faults: Faults): DividedSkill {
  const source = text.startsWith("\uFEFF") ? text.slice(1) : text;
  const opening = /^---[ \t]*\r?\n/.exec(source);
  if (opening === null) return missing("has no front matter: it must begin with a line of three hyphens", faults);
  const rest = source.slice(opening[0].length);
  const closing = /^---[ \t]*$/m.exec(rest.replaceAll("\r\n", " \n"));
  if (closing === null) return missing("has front matter without an end: a line of three hyphens is missing", faults);
  const yamlText = rest.slice(0, closing.index);
  const body = rest.slice(closing.index).replace(/^---[ \t]*\r?\n?/, "");
  if ([...yamlText].length > charsMax) return missing(`has front matter of more than ${charsMax} characters`, faults);
  return { head: readHead(yamlText, faults), body };
}

function missing(what: string, faults: Faults): DividedSkill {
  faults.add("SKILL.md", what);
  return { head: null, body: "" };
}

function readHead(text: string, faults: Faults): Readonly<Record<string, unknown>> | null {
  const { Composer, Lexer, Parser, isMap, visit } = yaml();
  const fail = (what: string): null => {
    faults.add("SKILL.md", `front matter ${what}`);
    return null;
  };
  const parser = new Parser();
  const tokens = [];
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (++lexemes > lexemesMax) return fail(`has more than ${lexemesMax} words and marks`);
    tokens.push(...parser.next(lexeme));
    // The stack has the document, and up to two entries for each level.
    if (parser.stack.length > depthMax + 2) return fail(`is nested deeper than ${depthMax}`);
  }
  tokens.push(...parser.end());
  const composer = new Composer({
    ...({ version: "1.2", schema: "core", stringKeys: true, uniqueKeys: true } as const),
    ...({ resolveKnownTags: false, merge: false, logLevel: "silent" } as const),
  });
  const [document, second] = [...composer.compose(tokens, true, text.length)];
  if (document === undefined || second !== undefined) return fail("has more than one document");
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) return fail(`is not YAML: ${problem.message.split("\n")[0]}`);
  let hasAnchor = false;
  const found = (isThere: boolean): void => {
    hasAnchor ||= isThere;
  };
  visit(document, {
    Alias: () => found(true),
    Node: (_key, node) => found("anchor" in node && node.anchor !== undefined),
  });
  if (hasAnchor) return fail("has an anchor or an alias");
  if (!isMap(document.contents)) return fail("is not a map of keys and values");
  return document.toJS({ maxAliasCount: 0 }) as Readonly<Record<string, unknown>>;
}
