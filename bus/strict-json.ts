// JSON of unknown origin: what two parsers might read differently, or what later code might trip over, is refused and never
// guessed at.

/** Objects and lists within each other. */
const depthMax = 64;

/** Why a text is not taken, in words that follow "the JSON". */
export class JsonFault extends Error {}

/** The value of a JSON text. Throws JsonFault, also for keys that are in `refusedKeys`. */
export function parseStrictJson(text: string, refusedKeys: ReadonlySet<string> = noKeys): unknown {
  checkStructure(text, refusedKeys);
  try {
    return JSON.parse(text);
  } catch {
    throw new JsonFault("does not parse");
  }
}

/**
 * Throws for depth, keys that are there twice or lead to prototypes, numbers that would not be exact or finite, NUL and lone
 * surrogates. Only texts that JSON.parse takes are judged rightly; others it may pass on to it.
 */
function checkStructure(text: string, refusedKeys: ReadonlySet<string>): void {
  // The keys of each object that is open, null for a list.
  const open: (Set<string> | null)[] = [];
  let keyExpected = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') {
      const end = stringEnd(text, at);
      const value = checkString(text.slice(at, end));
      const keys = open.at(-1);
      if (keyExpected && keys) addKey(keys, value, refusedKeys);
      keyExpected = false;
      at = end - 1;
    } else if (character === "{" || character === "[") {
      if (open.length === depthMax) throw new JsonFault(`is nested deeper than ${depthMax}`);
      open.push(character === "{" ? new Set() : null);
      keyExpected = character === "{";
    } else if (character === "}" || character === "]") open.pop();
    else if (character === ",") keyExpected = open.at(-1) instanceof Set;
    else if (character === "-" || (character !== undefined && character >= "0" && character <= "9"))
      at = checkNumber(text, at) - 1;
  }
}

/** Where the string that begins at `start` is over. */
function stringEnd(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); quote !== -1; quote = text.indexOf('"', quote + 1)) {
    let slashes = 0;
    while (text[quote - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return quote + 1;
  }
  throw new JsonFault("does not parse");
}

function checkString(literal: string): string {
  let value: unknown;
  try {
    value = literal.includes("\\") ? JSON.parse(literal) : literal.slice(1, -1);
  } catch {
    throw new JsonFault("does not parse");
  }
  if (typeof value !== "string") throw new JsonFault("does not parse");
  if (value.includes("\0")) throw new JsonFault("has a NUL character in a text");
  if (!value.isWellFormed()) throw new JsonFault("has half of a surrogate pair in a text");
  return value;
}

const noKeys: ReadonlySet<string> = new Set();

function addKey(keys: Set<string>, key: string, refused: ReadonlySet<string>): void {
  if (key === "__proto__" || refused.has(key)) throw new JsonFault(`has the key ${key}, which is never taken`);
  if (keys.has(key)) throw new JsonFault(`has the key ${JSON.stringify(key.slice(0, 100))} twice in one object`);
  keys.add(key);
}

/** Where the number that begins at `start` is over. */
function checkNumber(text: string, start: number): number {
  const pattern = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;
  pattern.lastIndex = start;
  const match = pattern.exec(text);
  if (match === null) throw new JsonFault("does not parse");
  const value = Number(match[0]);
  const isWhole = match[1] === undefined && match[2] === undefined;
  if (!Number.isFinite(value) || (isWhole && !Number.isSafeInteger(value)))
    throw new JsonFault(`has the number ${match[0].slice(0, 40)}, which is out of range`);
  return pattern.lastIndex;
}
