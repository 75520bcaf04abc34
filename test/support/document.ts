import { readdirSync, readFileSync } from "node:fs";
import { root } from "./source.ts";

// The documents and their typed parts: blocks of code, the commands of a block, and the expected output of a command.

/** A piece of code of a document. */
export interface Block {
  readonly path: string;
  readonly language: string;
  readonly code: string;
  /** The paragraph above it. */
  readonly above: string;
  readonly line: number;
  /** The expected output of the last command, from a block right below; null without one. */
  readonly printed: string | null;
  /** True if it is the output of the block right above it. */
  readonly isPrinted: boolean;
}

/** One command of a block. */
export interface Command {
  readonly text: string;
  /** The expected output, from the comments below it. */
  readonly printed: string | null;
}

/** Every document for users. */
export const documents: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  ...readdirSync(`${root}docs`)
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** The blocks of code of a document. */
export function blocksOf(path: string): Block[] {
  const text = readFileSync(`${root}${path}`, "utf8");
  const found = [...text.matchAll(/^```(\w*)[^\n]*\n(.*?)^```$/gms)];
  return found.map((block, index) => {
    const [, language = "", code = ""] = block;
    const before = text.slice(0, block.index);
    const paragraphs = before.trimEnd().split(/\n\n|```\n/);
    const next = found[index + 1];
    return {
      path,
      language,
      code,
      above: paragraphs.at(-1) ?? "",
      line: before.split("\n").length,
      printed: next && prints(text, block, next) ? (next[2] ?? "").trim() : null,
      isPrinted: index > 0 && prints(text, found[index - 1] as RegExpExecArray, block),
    };
  });
}

/** True if a block is the output of the commands before it: it follows directly, and has no language or is JSON. */
function prints(text: string, block: RegExpExecArray, next: RegExpExecArray): boolean {
  const between = text.slice(block.index + block[0].length, next.index);
  return block[1] === "sh" && ["", "json"].includes(next[1] ?? "") && between.trim() === "";
}

/** The reason for not running a block; null for one that is run. */
export function whyNotRun({ above }: Block): string | null {
  return /<!-- not run: (.*?) -->\s*$/s.exec(above)?.[1] ?? null;
}

/** True if a block has a reader of its own. */
export function isAlone({ above }: Block): boolean {
  return /<!-- run alone -->\s*$/.test(above);
}

/** The commands of a block of `sh`. A command may continue on the next line, by a backslash or open quotes. */
export function commandsOf({ code, printed }: Block): Command[] {
  const commands: { text: string; printed: string | null }[] = [];
  let open = "";
  let isBelow = false;
  for (const line of code.split("\n")) {
    const last = commands.at(-1);
    if (open === "" && /^\s*(#|$)/.test(line)) {
      isBelow &&= line.startsWith("#");
      if (isBelow && last) last.printed = `${last.printed ?? ""}${line.replace(/^# ?/, "")}\n`;
      continue;
    }
    if (open === "") commands.push({ text: line, printed: null });
    else if (last) last.text += `\n${line}`;
    open = leftOpen(line, open);
    isBelow = true;
  }
  const last = commands.at(-1);
  if (last && printed !== null) last.printed = printed;
  return commands;
}

/** The open quote at the end of a line, or the backslash; empty when the command is complete. */
function leftOpen(line: string, before: string): string {
  let open = before === "\\" ? "" : before;
  for (let at = 0; at < line.length; at += 1) {
    const sign = line[at] as string;
    if (sign === "\\" && open !== "'") {
      if (at === line.length - 1) return open === "" ? "\\" : open;
      at += 1;
    } else if (open !== "") open = sign === open ? "" : open;
    else if (sign === "'" || sign === '"') open = sign;
    else if (sign === "#" && /^$|\s/.test(line[at - 1] ?? "")) return open;
  }
  return open;
}

/** The expected output of a command, as a search pattern. */
export interface Printed {
  readonly pattern: RegExp;
  /** The ids of the document, each for a group of the pattern: a reader has others. */
  readonly ids: readonly string[];
}

const variable = /(?<![0-9A-Za-z])(?=[a-f]*\d)[0-9a-f]{4,}…|(?<![0-9A-Za-z])(?=\d*[a-f])[0-9a-f]{16,}|\d{13}|…|\s+/g;

/**
 * Parses it: `…` matches any text, blanks any blanks, a time any time, and an id the same id at each of
 * its positions.
 */
export function readPrinted(text: string): Printed {
  const ids: string[] = [];
  const pattern = text
    .trim()
    .replace(/^\d{3} (?=\{)/, "")
    // An event, by its name and its data.
    .replace(/^(\w+) +(?=\{)/gm, "…$1…")
    .replaceAll(/\d{4}-…/g, "…")
    .split(new RegExp(`(${variable.source})`))
    .map((part, index) => {
      if (index % 2 === 0) return part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
      if (part === "…") return "[\\s\\S]*?";
      if (/^\s/.test(part)) return "\\s*";
      if (/^\d{13}$/.test(part)) return "\\d{13}";
      const known = ids.indexOf(part);
      if (known >= 0) return `\\${known + 1}`;
      ids.push(part);
      return "([\\w-]+)";
    })
    .join("");
  return { pattern: new RegExp(pattern), ids };
}
