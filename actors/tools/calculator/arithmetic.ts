import {
  ArithmeticFault,
  add,
  divide,
  floor,
  fromNumber,
  isWhole,
  modulo,
  multiply,
  parseDecimal,
  power,
  type Rational,
  round,
  squareRoot,
  subtract,
  toNumber,
} from "./rational.ts";

// sum     = product (("+" | "-") product)*
// product = signed (("*" | "/" | "//" | "%") signed)*
// signed  = ("+" | "-") signed | powered
// powered = value (("**" | "^") signed)?          so that -2**2 is -4 and 2**-1 is 0.5
// value   = number | "pi" | "e" | name "(" sum ("," sum)* ")" | "(" sum ")"

/** Max characters of an expression. */
export const expressionCharsMax = 500;
const nestingMax = 50;

/** Returns the value of an arithmetic expression. Throws ArithmeticFault if it is malformed or has no value. */
export function evaluate(expression: string): Rational {
  if (expression.length > expressionCharsMax)
    throw new ArithmeticFault(`it is longer than ${expressionCharsMax} characters`);
  const reader = new Reader(tokenize(expression));
  const value = readSum(reader);
  if (reader.token !== undefined) throw unexpected(reader);
  return value;
}

type FunctionTable = Readonly<
  Record<
    string,
    { readonly min: number; readonly max: number; readonly apply: (args: readonly Rational[]) => Rational }
  >
>;

const functions: FunctionTable = {
  abs: one((x) => x.abs()),
  floor: one(floor),
  ceil: one((x) => x.ceil()),
  sqrt: one(squareRoot),
  round: { min: 1, max: 2, apply: ([x, digits]) => round(x as Rational, digits ? wholeOf(digits) : 0n) },
  min: { min: 1, max: 100, apply: (args) => args.reduce((a, b) => (b.lt(a) ? b : a)) },
  max: { min: 1, max: 100, apply: (args) => args.reduce((a, b) => (b.gt(a) ? b : a)) },
  ln: real((x) => logarithm(Math.log, x)),
  log10: real((x) => logarithm(Math.log10, x)),
  exp: real(Math.exp),
  sin: real(Math.sin),
  cos: real(Math.cos),
  tan: real(Math.tan),
};

const constants: Readonly<Record<string, Rational>> = { pi: fromNumber(Math.PI), e: fromNumber(Math.E) };

class Reader {
  readonly #tokens: readonly string[];
  #at = 0;
  depth = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  get token(): string | undefined {
    return this.#tokens[this.#at];
  }

  /** Consumes the token if it is one of these. */
  take(...wanted: readonly string[]): string | undefined {
    const { token } = this;
    if (token === undefined || !wanted.includes(token)) return undefined;
    this.#at++;
    return token;
  }

  next(): string | undefined {
    return this.#tokens[this.#at++];
  }
}

function tokenize(expression: string): string[] {
  const pattern =
    /\s+|(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[A-Za-z_][A-Za-z_0-9]*|\*\*|\/\/|[-+*/%^(),])/y;
  const tokens: string[] = [];
  while (pattern.lastIndex < expression.length) {
    const at = pattern.lastIndex;
    const match = pattern.exec(expression);
    if (match === null)
      throw new ArithmeticFault(`unexpected ${quoted(String.fromCodePoint(expression.codePointAt(at) ?? 0))}`);
    if (match[1] !== undefined) tokens.push(match[1]);
  }
  return tokens;
}

function readSum(reader: Reader): Rational {
  let value = readProduct(reader);
  for (let sign = reader.take("+", "-"); sign; sign = reader.take("+", "-")) {
    const right = readProduct(reader);
    value = sign === "+" ? add(value, right) : subtract(value, right);
  }
  return value;
}

function readProduct(reader: Reader): Rational {
  let value = readSigned(reader);
  for (let sign = reader.take("*", "/", "//", "%"); sign; sign = reader.take("*", "/", "//", "%")) {
    const right = readSigned(reader);
    if (sign === "*") value = multiply(value, right);
    else if (sign === "/") value = divide(value, right);
    else value = sign === "//" ? floor(divide(value, right)) : modulo(value, right);
  }
  return value;
}

function readSigned(reader: Reader): Rational {
  const sign = reader.take("+", "-");
  if (sign === undefined) return readPowered(reader);
  const value = nested(reader, readSigned);
  return sign === "-" ? value.neg() : value;
}

function readPowered(reader: Reader): Rational {
  const base = readValue(reader);
  return reader.take("**", "^") ? power(base, nested(reader, readSigned)) : base;
}

function readValue(reader: Reader): Rational {
  if (reader.take("(")) {
    const value = nested(reader, readSum);
    if (!reader.take(")")) throw unexpected(reader);
    return value;
  }
  const { token } = reader;
  if (token !== undefined && /^[.\d]/.test(token)) {
    reader.next();
    return parseDecimal(token);
  }
  if (token === undefined || !/^[A-Za-z_]/.test(token)) throw unexpected(reader);
  reader.next();
  return reader.take("(") ? readCall(reader, token) : constant(token);
}

function readCall(reader: Reader, name: string): Rational {
  const entry = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (entry === undefined) throw unknownName(name);
  const args: Rational[] = [];
  do {
    args.push(nested(reader, readSum));
  } while (reader.take(","));
  if (!reader.take(")")) throw unexpected(reader);
  if (args.length < entry.min || args.length > entry.max) {
    const counts = entry.min === entry.max ? `${entry.min}` : `${entry.min} to ${entry.max}`;
    throw new ArithmeticFault(`${name} takes ${counts} numbers`);
  }
  return entry.apply(args);
}

function constant(name: string): Rational {
  const value = Object.hasOwn(constants, name) ? constants[name] : undefined;
  if (value === undefined) throw unknownName(name);
  return value;
}

function nested(reader: Reader, read: (reader: Reader) => Rational): Rational {
  if (++reader.depth > nestingMax) throw new ArithmeticFault(`it is nested deeper than ${nestingMax}`);
  const value = read(reader);
  reader.depth--;
  return value;
}

function one(apply: (x: Rational) => Rational): FunctionTable[string] {
  return { min: 1, max: 1, apply: ([x]) => apply(x as Rational) };
}

function real(apply: (x: number) => number): FunctionTable[string] {
  return one((x) => fromNumber(apply(toNumber(x))));
}

function logarithm(apply: (x: number) => number, x: number): number {
  if (x <= 0) throw new ArithmeticFault("the logarithm of zero or less is not a real number");
  return apply(x);
}

function wholeOf(value: Rational): bigint {
  if (!isWhole(value)) throw new ArithmeticFault("round takes a whole number of digits");
  return value.s * value.n;
}

function unexpected(reader: Reader): ArithmeticFault {
  return new ArithmeticFault(reader.token === undefined ? "it ends too early" : `unexpected ${quoted(reader.token)}`);
}

function unknownName(name: string): ArithmeticFault {
  return new ArithmeticFault(`unknown name ${quoted(name)}: there are ${Object.keys(functions).join(", ")}, pi and e`);
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 40));
}
