// JSON of unknown origin: what two parsers might read differently, what later code might trip over, and what would keep the
// thread busy, is refused and never guessed at. The text is read once before anything is made of it, and no further than to the
// first fault: quickly where it is plain, and closely where it is not.

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

/** Objects and lists within each other. */
const depthMax = 64;
/** Members of one object (decision 74). */
export const objectMembersMax = 1_000;
/** Members of all objects together, where no rule says less. */
export const membersMaxDefault = 60_000;
/** Objects, lists, texts, numbers, true, false and null together. */
export const valuesMax = 100_000;

/** Why a text is not taken, in words that follow "the JSON". */
export class JsonFault extends Error {
  /** Where a text is no JSON, in words that go on; the engine's own, so that nothing may rest on them. */
  readonly where: string;

  constructor(message: string, where = "") {
    super(message);
    this.where = where;
  }
}

/** What a reader asks of a text beside what is asked of all. */
export interface JsonRules {
  readonly refusedKeys?: ReadonlySet<string>;
  readonly membersMax?: number;
  /**
   * Takes every text that RFC 8259 allows and that is within bounds: repeated keys, where the last value stays, `__proto__`, numbers out
   * of range, NUL and halves of surrogate pairs. For JSON whose text is passed on, and whose value is only looked into.
   */
  readonly lenient?: boolean;
}

/** The value of a JSON text. Throws JsonFault. */
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
    // What is wrong first, the close look says.
  }
  checkStructure(text, bounds, lenient);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new JsonFault("does not parse", whyNot(error as SyntaxError));
  }
}

/** Where the engine has stopped and why, without what it quotes of the text. */
function whyNot({ message }: SyntaxError): string {
  const said = /^(.*) in JSON at position \d+ \((line \d+ column \d+)\)$/s.exec(message);
  if (said) return ` at ${said[2]}: ${said[1]}`;
  const token = /^Unexpected token (.{1,8}), /su.exec(message);
  return token ? `: unexpected ${token[1]}` : message.startsWith("Unexpected end") ? ": it ends unexpectedly" : "";
}

/**
 * Throws for depth, amount, keys that are there twice or lead to prototypes, numbers that would not be exact or finite, NUL and
 * lone surrogates. Only texts that JSON.parse takes are judged rightly; others it may pass on to it.
 */
function checkStructure(text: string, { refusedKeys, membersMax }: JsonBounds, lenient: boolean): void {
  if (!lenient && !text.isWellFormed()) throw new JsonFault("has half of a surrogate pair in a text");
  // The keys of each object that is open, null for a list.
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

/** Where the string that begins at `start` is over. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
  throw new JsonFault("does not parse");
}

/** The text of a string with escapes. One without is what it says, and a NUL in it is not JSON. */
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

/** Where the number that begins at `start` is over. */
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
