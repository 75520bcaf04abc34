import { SvcError } from "../bus/errors.ts";
import { ExpandedSize } from "../bus/expanded-size.ts";

/** Max slash commands of one request. */
export const commandsMax = 16;
/** Longer arguments are split on whitespace only. */
const quotedArgumentCharsMax = 16_000;
/** Max characters of one expansion: a body may repeat its arguments many times. */
export const expansionCharsMax = 1_000_000;

/** A prompt of the manifest, with its body loaded. */
export interface CompiledPrompt {
  readonly name: string;
  readonly body: string;
  readonly description: string;
  readonly argument_hint: string;
  /** False if the name has characters other than letters, digits, - and _; the prompt is then a template only. */
  readonly command: boolean;
}

type Prompts = ReadonlyMap<string, CompiledPrompt>;

/** True if a prompt of this name is a slash command and not only a template. */
export function isCommandName(name: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(name);
}

/**
 * Returns the expansion of a named template and counts it in `size`. Throws unknown_prompt, empty_prompt,
 * payload_too_large.
 */
export function expandTemplate(
  prompts: Prompts,
  name: string,
  args: readonly string[],
  size = new ExpandedSize(0),
): string {
  const prompt = prompts.get(name.toLowerCase());
  if (prompt === undefined) throw new SvcError("unknown_prompt", { subject: name });
  return expand(prompt, args, size);
}

/**
 * Replaces every user message `/name args` by the expansion of its prompt, counted in `size`. Undeclared names and
 * messages of parts are unchanged. Throws too_many_commands, empty_prompt, payload_too_large.
 */
export function expandCommands<M extends { readonly role: string; readonly content: unknown }>(
  prompts: Prompts,
  messages: readonly M[],
  size = new ExpandedSize(0),
): M[] {
  const commands = messages.map(({ role, content }) => (role === "user" ? findCommand(prompts, content) : null));
  if (commands.filter((command) => command !== null).length > commandsMax)
    throw new SvcError("too_many_commands", { subject: String(commandsMax) });
  return messages.map((message, at) => {
    const command = commands[at];
    return command ? { ...message, content: expand(command.prompt, splitArguments(command.text), size) } : message;
  });
}

/** Splits arguments as a POSIX shell does; by whitespace alone if a quote is unclosed or the text is too long. */
export function splitArguments(text: string): string[] {
  return (isLonger(text, quotedArgumentCharsMax) ? null : splitLikeShell(text)) ?? splitOnWhitespace(text);
}

/** Inserts arguments into the body. Placeholders inside of arguments are not expanded. `counter` is for tests. */
export function expandBody(body: string, args: readonly string[], counter?: { steps: number }): string {
  const parts: string[] = [];
  let length = 0;
  const add = (part: string) => {
    length += part.length;
    if (length > expansionCharsMax) throw new SvcError("payload_too_large");
    parts.push(part);
  };
  const all = args.join(" ");
  let copied = 0;
  for (const { at, end, argument, otherwise } of placesOf(body, counter)) {
    add(body.slice(copied, at));
    add(argument === "all" ? all : args[argument - 1] || otherwise);
    copied = end;
  }
  add(body.slice(copied));
  return parts.join("");
}

interface Place {
  readonly at: number;
  readonly end: number;
  /** Counted from 1. */
  readonly argument: number | "all";
  readonly otherwise: string;
}

/** Yields `$1`, `$@` and `${1:-default}` from left to right. Examines no character more than twice. */
function* placesOf(body: string, counter: { steps: number } = { steps: 0 }): Generator<Place> {
  // No default can end after the last brace; without this bound, each `${1:-` would scan the rest of the body.
  const lastBrace = body.lastIndexOf("}");
  let at = body.indexOf("$");
  while (at >= 0) {
    const place = placeAt(body, at, lastBrace, counter);
    if (place !== null) yield place;
    at = body.indexOf("$", place?.end ?? at + 1);
  }
}

function placeAt(body: string, at: number, lastBrace: number, counter: { steps: number }): Place | null {
  if (body[at + 1] === "@") return { at, end: at + 2, argument: "all", otherwise: "" };
  const braced = body[at + 1] === "{";
  const from = at + (braced ? 2 : 1);
  let to = from;
  while (isDigit(body[to])) to++;
  counter.steps += to - at;
  if (to === from || body[from] === "0") return null;
  const argument = Number(body.slice(from, to));
  if (!braced) return { at, end: to, argument, otherwise: "" };
  if (!body.startsWith(":-", to) || to > lastBrace) return null;
  const brace = body.indexOf("}", to);
  counter.steps += brace - to;
  return { at, end: brace + 1, argument, otherwise: body.slice(to + 2, brace) };
}

function isDigit(char: string | undefined): boolean {
  return char !== undefined && char >= "0" && char <= "9";
}

function expand(prompt: CompiledPrompt, args: readonly string[], size: ExpandedSize): string {
  const text = expandBody(prompt.body, args);
  size.add(Buffer.byteLength(text));
  if (text.trim() === "") throw new SvcError("empty_prompt", { subject: prompt.name });
  return text;
}

function findCommand(prompts: Prompts, content: unknown): { prompt: CompiledPrompt; text: string } | null {
  if (typeof content !== "string") return null;
  const found = /^\/([A-Za-z0-9_-]{1,64})(?:\s|$)/.exec(content);
  const prompt = prompts.get(found?.[1]?.toLowerCase() ?? "");
  if (found === null || prompt === undefined) return null;
  return { prompt, text: content.slice(found[0].length) };
}

/** Returns null if a quote or a backslash is unclosed. */
function splitLikeShell(text: string): string[] | null {
  const words: string[] = [];
  let word = "";
  let inWord = false;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    const next = text[at + 1];
    if (quote === "'") {
      if (char === "'") quote = "";
      else word += char;
    } else if (quote === '"') {
      if (char === '"') quote = "";
      else if (char === "\\" && (next === '"' || next === "\\")) {
        word += next;
        at++;
      } else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      inWord = true;
    } else if (char === "\\") {
      if (next === undefined) return null;
      word += next;
      inWord = true;
      at++;
    } else if (whitespace.includes(char)) {
      if (inWord) words.push(word);
      word = "";
      inWord = false;
    } else {
      word += char;
      inWord = true;
    }
  }
  if (quote !== "") return null;
  if (inWord) words.push(word);
  return words;
}

const whitespace = " \t\r\n";

function splitOnWhitespace(text: string): string[] {
  return text.split(/[ \t\r\n]+/).filter((word) => word !== "");
}

/** True if the text has more than `limit` code points. */
function isLonger(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  let characters = 0;
  for (const _ of text) if (++characters > limit) return true;
  return false;
}
