import { isRecord } from "./definition.ts";
import { type Expansion, type Path, readPath, UnreadableReference } from "./references.ts";

// Conditions compare two operands with == != < <= > >= or contains, or test one with exists. The words and, or and not and parentheses join
// comparisons. An operand is a path, such as `steps.a.text`, `$steps.a.text` or `{{steps.a.text}}`, or a JSON literal. A text may have single
// quotes.

/** A condition that has been read. */
export type Condition =
  | { readonly op: "and" | "or"; readonly parts: readonly Condition[] }
  | { readonly op: "not"; readonly part: Condition }
  | { readonly op: "exists"; readonly left: Operand }
  | { readonly op: "is"; readonly left: Operand }
  | { readonly op: Comparison; readonly left: Operand; readonly right: Operand };

type Comparison = "==" | "!=" | "<" | "<=" | ">" | ">=" | "contains";
type Operand = { readonly path: Path } | { readonly value: unknown };

const charsMax = 1_000;
const depthMax = 20;
const comparisons: ReadonlySet<string> = new Set(["==", "!=", "<", "<=", ">", ">=", "contains"] satisfies Comparison[]);
const tokenPattern =
  /\s*(\{\{[^{}]*\}\}|"(?:[^"\\]|\\.)*"|'[^']*'|==|!=|<=|>=|<|>|\(|\)|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![A-Za-z0-9_.])|\$?[A-Za-z][A-Za-z0-9_.-]*)/y;

/** Reads a condition. Throws UnreadableReference. */
export function readCondition(text: string): Condition {
  if (text.length > charsMax) throw new UnreadableReference(`a condition has at most ${charsMax} characters`);
  const reader = new Reader(tokensOf(text));
  const condition = reader.either(0);
  reader.end();
  return condition;
}

/** Calls `found` for each path of a condition. */
export function eachPathOf(condition: Condition, found: (path: Path) => void): void {
  if ("parts" in condition) for (const part of condition.parts) eachPathOf(part, found);
  else if ("part" in condition) eachPathOf(condition.part, found);
  else
    for (const side of ["left", "right"] as const) {
      const operand = side in condition ? (condition as { left: Operand; right?: Operand })[side] : undefined;
      if (operand !== undefined && "path" in operand) found(operand.path);
    }
}

/** Returns whether a condition holds. A value that is not there is null. */
export function holds(condition: Condition, values: Expansion): boolean {
  switch (condition.op) {
    case "and":
      return condition.parts.every((part) => holds(part, values));
    case "or":
      return condition.parts.some((part) => holds(part, values));
    case "not":
      return !holds(condition.part, values);
    case "exists":
      return operandOf(condition.left, values) !== null;
    case "is":
      return operandOf(condition.left, values) === true;
    default:
      return compares(condition.op, operandOf(condition.left, values), operandOf(condition.right, values));
  }
}

function compares(op: Comparison, left: unknown, right: unknown): boolean {
  if (op === "==") return equals(left, right);
  if (op === "!=") return !equals(left, right);
  if (op === "contains") {
    if (typeof left === "string") return typeof right === "string" && left.includes(right);
    if (Array.isArray(left)) return left.some((one) => equals(one, right));
    return isRecord(left) && typeof right === "string" && Object.hasOwn(left, right);
  }
  const isOrdered =
    (typeof left === "number" && typeof right === "number") || (typeof left === "string" && typeof right === "string");
  if (!isOrdered) return false;
  const [a, b] = [left as number, right as number];
  if (op === "<") return a < b;
  if (op === "<=") return a <= b;
  return op === ">" ? a > b : a >= b;
}

/** Equality of JSON values. A text equals the number or the boolean that it writes, because models answer in text. */
function equals(left: unknown, right: unknown): boolean {
  if (typeof left === "object" || typeof right === "object") return left === right || sorted(left) === sorted(right);
  if (typeof left === typeof right) return left === right;
  return String(left).trim() === String(right).trim();
}

/** Returns JSON whose keys are in order. */
function sorted(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}

function operandOf(operand: Operand, values: Expansion): unknown {
  return "path" in operand ? values.read(operand.path) : operand.value;
}

function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  tokenPattern.lastIndex = 0;
  let at = 0;
  while (text.slice(at).trim() !== "") {
    tokenPattern.lastIndex = at;
    const found = tokenPattern.exec(text);
    if (found === null) throw unread(text.slice(at).trim().slice(0, 40));
    tokens.push(found[1] as string);
    at = tokenPattern.lastIndex;
  }
  return tokens;
}

/** Reads the tokens of a condition by precedence: or, and, not, comparison. */
class Reader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  end(): void {
    const left = this.#tokens[this.#at];
    if (left !== undefined) throw unread(left);
  }

  either(depth: number): Condition {
    return this.#joined("or", depth, () => this.#joined("and", depth, () => this.#negated(depth)));
  }

  #joined(word: "and" | "or", _depth: number, next: () => Condition): Condition {
    const parts = [next()];
    while (this.#tokens[this.#at] === word) {
      this.#at++;
      parts.push(next());
    }
    return parts.length === 1 ? (parts[0] as Condition) : { op: word, parts };
  }

  #negated(depth: number): Condition {
    if (depth > depthMax) throw new UnreadableReference(`a condition is nested more than ${depthMax} deep`);
    if (this.#tokens[this.#at] === "not") {
      this.#at++;
      return { op: "not", part: this.#negated(depth + 1) };
    }
    if (this.#tokens[this.#at] === "(") {
      this.#at++;
      const inner = this.either(depth + 1);
      if (this.#tokens[this.#at++] !== ")") throw new UnreadableReference("a parenthesis of the condition is open");
      return inner;
    }
    return this.#compared();
  }

  #compared(): Condition {
    const left = this.#operand();
    const op = this.#tokens[this.#at];
    if (op === "exists") {
      this.#at++;
      return { op, left };
    }
    if (op === undefined || !comparisons.has(op)) return { op: "is", left };
    this.#at++;
    return { op: op as Comparison, left, right: this.#operand() };
  }

  #operand(): Operand {
    const token = this.#tokens[this.#at++];
    if (token === undefined) throw new UnreadableReference("the condition ends where a value is expected");
    if (token.startsWith("{{")) return { path: readPath(token.slice(2, -2).trim()) };
    if (token.startsWith("$")) return { path: readPath(token.slice(1)) };
    if (token.startsWith("'")) return { value: token.slice(1, -1) };
    if (token === "true" || token === "false" || token === "null" || /^["\d-]/.test(token))
      return { value: literal(token) };
    if (/^(?:steps|inputs|input|item|index)(?:\.|$)/.test(token)) return { path: readPath(token) };
    throw unread(token);
  }
}

function literal(token: string): unknown {
  try {
    return JSON.parse(token);
  } catch {
    throw unread(token);
  }
}

function unread(token: string): UnreadableReference {
  return new UnreadableReference(`the condition cannot be read at ${JSON.stringify(token.slice(0, 60))}`);
}
