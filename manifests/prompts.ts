import { SvcError } from "../bus/errors.ts";
import { ExpandedSize } from "../bus/expanded-size.ts";

/** Slash commands that one request may hold. */
export const commandsMax = 16;
/** Longer arguments are split on whitespace only. */
const quotedArgumentCharsMax = 16_000;
/** Characters of one expansion: a body may repeat its arguments without end. */
export const expansionCharsMax = 1_000_000;

/** A prompt of the manifest, its body read. */
export interface CompiledPrompt {
  readonly name: string;
  readonly body: string;
  readonly description: string;
  readonly argument_hint: string;
  /** False for names with other characters than letters, digits, - and _: such a prompt is a template only. */
  readonly command: boolean;
}

type Prompts = ReadonlyMap<string, CompiledPrompt>;

/** Whether a prompt of this name is a slash command, not only a template. */
export function isCommandName(name: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(name);
}

/** The user turn of a named template; `size` counts it. Throws unknown_prompt, empty_prompt, payload_too_large. */
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
 * The messages with every user message `/name args` replaced by the expansion of the prompt that it names, which `size` counts; names
 * that are not declared and messages of parts stay as they are. Throws too_many_commands, empty_prompt, payload_too_large.
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

/** Arguments as a POSIX shell would split them; by whitespace alone when a quote is left open or the text is too long. */
export function splitArguments(text: string): string[] {
  return (isLonger(text, quotedArgumentCharsMax) ? null : splitLikeShell(text)) ?? splitOnWhitespace(text);
}

/** The body with its arguments. Arguments are not looked into for further places. `counter` is for tests. */
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

/** `$1`, `$@` and `${1:-default}` from left to right. No character is looked at more than twice. */
function* placesOf(body: string, counter: { steps: number } = { steps: 0 }): Generator<Place> {
  // Behind the last brace no default ends, and looking for one at every `${1:-` would look at all that follows each time.
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

/** Null when a quote or a backslash is left open. */
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

/** Whether the text has more than `limit` characters, counted as code points. */
function isLonger(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  let characters = 0;
  for (const _ of text) if (++characters > limit) return true;
  return false;
}
