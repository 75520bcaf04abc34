// Parses JSON of unknown origin. It rejects texts that parsers might read differently, that could harm later code, or
// that would block the thread. The text is scanned once before parsing, up to the first fault, with a fast scan for
// plain text and a full check otherwise.

import {
  closeList,
  closeObject,
  comma,
  isDigit,
  isFirstLetter,
  minus,
  openList,
  openObject,
  quote,
} from "./json-characters.ts";
import { countMembers, type JsonBounds, membersIfPlain } from "./plain-json.ts";

/** Max depth of nested objects and lists. */
const depthMax = 64;
/** Max members of one object (decision 74). */
export const objectMembersMax = 1_000;
/** Max members of all objects together, unless the rules set a lower limit. */
export const membersMaxDefault = 60_000;
/** Max values: objects, lists, texts, numbers, true, false and null. */
export const valuesMax = 100_000;

/** Reason for the rejection of a text, in words that follow "the JSON". */
export class JsonFault extends Error {
  /**
   * Position of a syntax error, in words that continue the message. They come from the engine, so no code may depend on
   * them.
   */
  readonly where: string;

  constructor(message: string, where = "") {
    super(message);
    this.where = where;
  }
}

/** Additional rules for a text. */
export interface JsonRules {
  readonly refusedKeys?: ReadonlySet<string>;
  readonly membersMax?: number;
  /**
   * Accepts every text within the limits that RFC 8259 allows: repeated keys (the last value wins), `__proto__`,
   * numbers out of range, NUL and lone surrogates. For JSON that is forwarded as text, and whose value is only
   * inspected.
   */
  readonly lenient?: boolean;
}

/** Returns the value of a JSON text. Throws JsonFault. */
export function parseStrictJson(text: string, rules: JsonRules = {}): unknown {
  const { refusedKeys = noKeys, membersMax = membersMaxDefault, lenient = false } = rules;
  const bounds = { refusedKeys, depthMax, membersMax, objectMembersMax, valuesMax };
  const members = membersIfPlain(text, bounds);
  try {
    if (members !== null) {
      const value: unknown = JSON.parse(text);
      if (countMembers(value) === members) return value;
    }
  } catch {
    // The full check finds the first fault.
  }
  checkStructure(text, bounds, lenient);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new JsonFault("does not parse", whyNot(error as SyntaxError));
  }
}

/** Returns the engine's position and reason, without its quotation of the text. */
function whyNot({ message }: SyntaxError): string {
  const said = /^(.*) in JSON at position \d+ \((line \d+ column \d+)\)$/s.exec(message);
  if (said) return ` at ${said[2]}: ${said[1]}`;
  const token = /^Unexpected token (.{1,8}), /su.exec(message);
  return token ? `: unexpected ${token[1]}` : message.startsWith("Unexpected end") ? ": it ends unexpectedly" : "";
}

/**
 * Throws JsonFault for excessive depth or size, repeated keys, keys that reach prototypes, numbers that are inexact or
 * infinite, NUL, and lone surrogates. It is correct only for valid JSON, and may accept invalid texts, which JSON.parse
 * then rejects.
 */
function checkStructure(text: string, { refusedKeys, membersMax }: JsonBounds, lenient: boolean): void {
  if (!lenient && !text.isWellFormed()) throw new JsonFault("has half of a surrogate pair in a text");
  // The keys of each open object, null for a list.
  const open: (Keys | null)[] = [];
  let keys: Keys | null = null;
  let keyExpected = false;
  let members = 0;
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character === quote) {
      const end = stringEnd(text, at);
      const content = text.slice(at + 1, end - 1);
      const value = content.includes("\\") ? unescaped(text.slice(at, end), lenient) : content;
      if (keyExpected && keys !== null) {
        if (++members > membersMax) throw new JsonFault(`has more than ${membersMax} members`);
        if (++keys.count > objectMembersMax)
          throw new JsonFault(`has an object of more than ${objectMembersMax} members`);
        if (!lenient) addKey(keys.names, value, refusedKeys);
        keyExpected = false;
      } else values++;
      at = end - 1;
    } else if (character === comma) keyExpected = keys !== null;
    else if (character === openObject || character === openList) {
      if (open.length === depthMax) throw new JsonFault(`is nested deeper than ${depthMax}`);
      values++;
      keys = character === openObject ? { names: new Set(), count: 0 } : null;
      keyExpected = keys !== null;
      open.push(keys);
    } else if (character === closeObject || character === closeList) {
      open.pop();
      keys = open.at(-1) ?? null;
      keyExpected = false;
    } else if (character === minus || isDigit(character)) {
      values++;
      at = checkNumber(text, at, lenient) - 1;
    } else if (isFirstLetter(character)) values++;
    if (values > valuesMax) throw new JsonFault(`has more than ${valuesMax} values`);
  }
}

/** The keys of an object so far. */
interface Keys {
  readonly names: Set<string>;
  count: number;
}

/** Returns the end of the string that begins at `start`. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  throw new JsonFault("does not parse");
}

/** Returns the value of a string literal with escapes. */
function unescaped(literal: string, lenient: boolean): string {
  let value: unknown;
  try {
    value = JSON.parse(literal);
  } catch {
    throw new JsonFault("does not parse");
  }
  if (typeof value !== "string") throw new JsonFault("does not parse");
  if (lenient) return value;
  if (value.includes("\0")) throw new JsonFault("has a NUL character in a text");
  if (!value.isWellFormed()) throw new JsonFault("has half of a surrogate pair in a text");
  return value;
}

const noKeys: ReadonlySet<string> = new Set();

function addKey(keys: Set<string>, key: string, refused: ReadonlySet<string>): void {
  if (key === "__proto__" || refused.has(key)) throw new JsonFault(`has the key ${key}, which is not allowed`);
  if (keys.has(key)) throw new JsonFault(`has the key ${JSON.stringify(key.slice(0, 100))} twice in one object`);
  keys.add(key);
}

const numberPattern = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;

/** Returns the end of the number that begins at `start`. */
function checkNumber(text: string, start: number, lenient: boolean): number {
  numberPattern.lastIndex = start;
  const match = numberPattern.exec(text);
  if (match === null) throw new JsonFault("does not parse");
  const value = Number(match[0]);
  const isWhole = match[1] === undefined && match[2] === undefined;
  if (lenient) return numberPattern.lastIndex;
  if (!Number.isFinite(value) || (isWhole && !Number.isSafeInteger(value)))
    throw new JsonFault(`has the number ${match[0].slice(0, 40)}, which is out of range`);
  return numberPattern.lastIndex;
}
