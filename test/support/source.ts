import { globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";

// The project's own source, for the tests of the house rules.

export interface SourceFile {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
  /** `text` with the insides of comments blanked out; lines and columns stay. */
  readonly code: string;
  /** `code` with the insides of strings, templates and regular expressions blanked out as well. */
  readonly bare: string;
  readonly imports: readonly string[];
}

/** The layers, lowest first: a file imports from its own layer and from those below. */
export const layers = ["bus", "storage", "manifests", "governance", "actors", "http", "plugins", "host"] as const;

export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Code that runs in production. */
export function readProduct(): readonly SourceFile[] {
  return read([...layers.map((layer) => `${layer}/**/*.ts`), "svc.ts"]);
}

/** Code that tests it, measures it and generates documents from it. */
export function readTools(): readonly SourceFile[] {
  return read(["test/**/*.ts", "perf/**/*.ts", "docs/**/*.ts"]);
}

/** The folders that hold one kind of actor each: `actors/<kind>` with a file `<kind>-actor.ts`. They share bus/protocol and no code. */
export function actorKindFolders(product: readonly SourceFile[]): readonly string[] {
  return product.flatMap(({ path }) => /^(actors\/([\w-]+))\/\2-actor\.ts$/.exec(path)?.[1] ?? []);
}

/**
 * The imports between folders, as `[from, to, example]`. The folders of a layer have an order when these arrows have no cycle: then
 * each folder can be understood from the folders that it imports.
 */
export function folderImports(product: readonly SourceFile[]): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const arrows = new Map<string, Map<string, string>>();
  for (const { path, imports } of product)
    for (const specifier of imports) {
      const target = importedFile(path, specifier);
      if (target === null) continue;
      const [from, to] = [posix.dirname(path), posix.dirname(target)];
      const known = arrows.get(from) ?? new Map<string, string>();
      if (from !== to && !known.has(to)) known.set(to, `${path} imports ${target}`);
      arrows.set(from, known);
    }
  return arrows;
}

function read(patterns: string[]): readonly SourceFile[] {
  const paths = globSync(patterns, { cwd: root }).sort();
  return paths.map((path) => sourceFile(path, readFileSync(`${root}${path}`, "utf8")));
}

/** A file with its comments and strings separated from its code. */
export function sourceFile(path: string, text: string): SourceFile {
  const { code, bare } = blank(text);
  return { path, text, code, bare, imports: importsOf(code, bare) };
}

/** The file that an import names, as a path from the root; null for a package. */
export function importedFile(from: string, specifier: string): string | null {
  return specifier.startsWith(".") ? posix.join(posix.dirname(from), specifier) : null;
}

/** The matches of `pattern`: `path:line text`, for the message of a failed test. */
export function findIn(
  files: Iterable<SourceFile>,
  pattern: RegExp,
  part: "text" | "code" | "bare" = "bare",
): string[] {
  return [...files].flatMap((file) =>
    [...file[part].matchAll(new RegExp(pattern, `${pattern.flags.replace("g", "")}g`))].map((match) =>
      at(file, match.index),
    ),
  );
}

/** `path:line` and the line itself. */
export function at(file: SourceFile, index: number): string {
  const line = file.text.slice(0, index).split("\n").length;
  return `${file.path}:${line} ${(file.text.split("\n")[line - 1] ?? "").trim()}`;
}

/** Statements and calls are searched in bare code, and their names are then read at the same position. */
function importsOf(code: string, bare: string): string[] {
  const statements = /^(?:import|export)\b(?:[^;"']*?\bfrom)?\s*["'] *["']/gm;
  const calls = /\bimport\(\s*["'] *["']/g;
  return [statements, calls].flatMap((pattern) =>
    [...bare.matchAll(pattern)].map(({ index, 0: found }) => {
      const [, specifier = ""] = /["'](.*)["']$/.exec(code.slice(index, index + found.length)) ?? [];
      return specifier;
    }),
  );
}

const comment = /\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const string = /"(?:\\[\s\S]|[^\\"\n])*"|'(?:\\[\s\S]|[^\\'\n])*'/y;
/** From after the backtick, or the brace that ends a substitution, to the next of either. */
const templatePart = /(?:\\[\s\S]|\$(?!\{)|[^\\`$])*(?:`|\$\{)/y;
const regExp = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/\w*/y;
/** After one of these a slash begins a regular expression; after anything else it divides. */
const beforeRegExp = /(?:^|[(,=:[!&|?{};+*%<>~^-]|\b(?:return|typeof|case|in|of|await|yield|throw|else|do|void))\s*$/;

/** Parses a text as far as needed to separate code from comments and strings. Substitutions of a template are code. */
function blank(text: string): { code: string; bare: string } {
  const code = text.split("");
  const bare = text.split("");
  const hide = (lines: string[], from: number, to: number): void => {
    for (let at = from; at < to; at++) if (text[at] !== "\n") lines[at] = " ";
  };
  /** For each open template, the number of open braces inside its present substitution. */
  const templates: number[] = [];
  let at = 0;
  const take = (pattern: RegExp): number => {
    pattern.lastIndex = at;
    return pattern.test(text) ? pattern.lastIndex : 0;
  };
  const takeTemplatePart = (): number => {
    at++;
    const end = take(templatePart) || text.length;
    const closes = text[end - 1] === "`";
    hide(bare, at, end - (closes ? 1 : 2));
    if (closes) templates.pop();
    return end;
  };
  const next = (): number => {
    const character = text[at] ?? "";
    const depth = templates.at(-1);
    const commentEnd = take(comment);
    if (commentEnd > 0) {
      for (const lines of [code, bare]) hide(lines, at + 2, commentEnd);
      return commentEnd;
    }
    const isRegExp = character === "/" && beforeRegExp.test(code.slice(Math.max(0, at - 80), at).join(""));
    const literalEnd = take(string) || (isRegExp ? take(regExp) : 0);
    if (literalEnd > 0) {
      hide(bare, at + 1, literalEnd - 1);
      return literalEnd;
    }
    if (character === "`") {
      templates.push(0);
      return takeTemplatePart();
    }
    if (depth !== undefined && character === "}" && depth === 0) return takeTemplatePart();
    if (depth !== undefined && character === "{") templates[templates.length - 1] = depth + 1;
    if (depth !== undefined && character === "}") templates[templates.length - 1] = depth - 1;
    return at + 1;
  };
  while (at < text.length) at = next();
  return { code: code.join(""), bare: bare.join("") };
}
