import { readdirSync, readFileSync } from "node:fs";
import { root } from "./source.ts";

// The documents and what stands in them to be typed: blocks of code, the commands of a block, and what a command is said to print.

/** A piece of code of a document. */
export interface Block {
  readonly path: string;
  readonly language: string;
  readonly code: string;
  /** The paragraph above it. */
  readonly above: string;
  readonly line: number;
  /** What a block that stands right below says that its last command prints. */
  readonly printed: string | null;
  /** Whether it is what the block right above it prints. */
  readonly isPrinted: boolean;
}

/** One command of a block. */
export interface Command {
  readonly text: string;
  /** What the comments below it say that it prints. */
  readonly printed: string | null;
}

/** Every document that is for users. */
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

/** Whether a block is what the commands of the one before it print: nothing stands between, and it has no language, or is JSON. */
function prints(text: string, block: RegExpExecArray, next: RegExpExecArray): boolean {
  const between = text.slice(block.index + block[0].length, next.index);
  return block[1] === "sh" && ["", "json"].includes(next[1] ?? "") && between.trim() === "";
}

/** Why a block is left alone; null for one that is run. */
export function whyNotRun({ above }: Block): string | null {
  return /<!-- not run: (.*?) -->\s*$/s.exec(above)?.[1] ?? null;
}

/** Whether a block is for a reader of its own. */
export function isAlone({ above }: Block): boolean {
  return /<!-- run alone -->\s*$/.test(above);
}

/** The commands of a block of `sh`, which may go over lines: by a backslash, or by quotes that are open. */
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

/** The quote that is open at the end of a line, or the backslash; nothing where the command is whole. */
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

/** What a document says that a command prints, as what is to be looked for. */
export interface Printed {
  readonly pattern: RegExp;
  /** The ids of the document, each for a group of the pattern: a reader has others. */
  readonly ids: readonly string[];
}

const variable = /(?<![0-9A-Za-z])(?=[a-f]*\d)[0-9a-f]{4,}…|(?<![0-9A-Za-z])(?=\d*[a-f])[0-9a-f]{16,}|\d{13}|…|\s+/g;

/** Reads it: `…` stands for anything, blanks for any, a time for any time, and an id for one that is the same wherever it stands. */
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
