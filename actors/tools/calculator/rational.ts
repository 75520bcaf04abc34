import { Fraction } from "fraction.js";

// fraction.js does the arithmetic. This file bounds its results, rounds them to floating point and writes them as decimals.

/** An exact number `s * n / d` in lowest terms: `s` is the sign, `n` is not negative and `d` is positive. */
export type Rational = Fraction;

/** Thrown if an expression has no value. The message is the end of a sentence. */
export class ArithmeticFault extends Error {}

/** Max digits of an integer, and of either part of a fraction. */
const digitsMax = 400;
const bitsMax = Math.ceil(digitsMax * Math.log2(10));
const exponentMax = 10_000n;
/** Digits shown of a number without a short decimal form. */
const significantDigits = 15;
/** Max decimals up to which a number is shown in full. */
const fractionDigitsMax = 30;

/** Returns `num / den` in lowest terms, bounded. */
export function rational(num: bigint, den: bigint): Rational {
  if (den === 0n) throw new ArithmeticFault("division by zero");
  return bounded(new Fraction(num, den));
}

/**
 * Refuses a whole number over the bound. Rounds a fraction over the bound to the nearest floating-point number, which has more digits
 * than a reader needs.
 */
function bounded(value: Fraction): Rational {
  if (value.n < limit && value.d < limit) return value;
  if (isWhole(value)) throw new ArithmeticFault(`the number has more than ${digitsMax} digits`);
  return approximate(toNumber(value));
}

/** Returns the numerator with its sign. */
function signed({ s, n }: Rational): bigint {
  return s * n;
}

/** True for a number without a fraction. */
export function isWhole({ d }: Rational): boolean {
  return d === 1n;
}

/** True for a number below zero. */
function isNegative({ s, n }: Rational): boolean {
  return s < 0n && n !== 0n;
}

/** Returns an integer. Refuses one above the limit. */
export function whole(value: bigint): Rational {
  return bounded(new Fraction(value));
}

/** Parses digits with an optional point and exponent, exactly. */
export function parseDecimal(text: string): Rational {
  const [mantissa, exponentText = "0"] = text.toLowerCase().split("e") as [string, string?];
  const [integer, fraction = ""] = mantissa.split(".") as [string, string?];
  const exponent = Number(exponentText) - fraction.length;
  if (Math.abs(exponent) > digitsMax) throw new ArithmeticFault(`the number has more than ${digitsMax} digits`);
  const digits = BigInt(integer + fraction);
  return exponent >= 0 ? whole(digits * 10n ** BigInt(exponent)) : rational(digits, 10n ** BigInt(-exponent));
}

/** Converts a floating-point number by its shortest decimal form. */
export function fromNumber(value: number): Rational {
  if (Number.isNaN(value)) throw new ArithmeticFault("the result is not a real number");
  if (!Number.isFinite(value)) throw new ArithmeticFault("the result is out of range");
  const text = String(Math.abs(value));
  const magnitude = parseDecimal(text);
  return value < 0 ? magnitude.neg() : magnitude;
}

/** Below two to this power, floating-point numbers are multiples of the smallest one, two to the power of -1074. */
const smallestNormal = -1022;
const smallestBits = 1074n;

/** Returns the nearest floating-point number. */
export function toNumber(value: Rational): number {
  const { d: den } = value;
  const num = signed(value);
  if (den === 1n) return Number(num);
  const magnitude = bits(num) - bits(den);
  // Near zero, numbers have fewer bits, so round once to a multiple of the smallest number instead of twice.
  if (magnitude <= smallestNormal) return Number(nearest(num << smallestBits, den)) * Number.MIN_VALUE;
  // 64 bits more than the result has, so that integer division loses nothing relevant.
  const shift = 64 + 53 - magnitude;
  const quotient = shift >= 0 ? (num << BigInt(shift)) / den : num / (den << BigInt(-shift));
  return scale(Number(quotient), -shift);
}

/** Returns the sum. */
export function add(a: Rational, b: Rational): Rational {
  return bounded(a.add(b));
}

/** Returns the difference. */
export function subtract(a: Rational, b: Rational): Rational {
  return bounded(a.sub(b));
}

/** Returns the product. */
export function multiply(a: Rational, b: Rational): Rational {
  return bounded(a.mul(b));
}

/** Returns the quotient. Refuses zero for `b`. */
export function divide(a: Rational, b: Rational): Rational {
  if (b.n === 0n) throw new ArithmeticFault("division by zero");
  return bounded(a.div(b));
}

/** Returns the largest integer that is not greater. */
export function floor(a: Rational): Rational {
  return bounded(a.floor());
}

/** Returns the remainder of floor division; it has the sign of `b`. */
export function modulo(a: Rational, b: Rational): Rational {
  return subtract(a, multiply(b, floor(divide(a, b))));
}

/** Rounds to the nearest multiple of 10 to the power of `-digits`; halves round away from zero. */
export function round(a: Rational, digits: bigint): Rational {
  if (digits < -100n || digits > 100n) throw new ArithmeticFault("round takes -100 to 100 digits");
  return bounded(a.roundTo(digits >= 0n ? new Fraction(1n, 10n ** digits) : new Fraction(10n ** -digits)));
}

/** Exact for integer exponents; floating point for others, and for fractions that would exceed the limit. */
export function power(base: Rational, exponent: Rational): Rational {
  if (!isWhole(exponent)) {
    if (isNegative(base))
      throw new ArithmeticFault("a negative number to the power of a fraction is not a real number");
    return base.n === 0n && !isNegative(exponent) ? base : approximate(toNumber(base) ** toNumber(exponent));
  }
  const times = exponent.n;
  const isInverse = isNegative(exponent);
  if (times > exponentMax && isWhole(base)) throw new ArithmeticFault(`the exponent is over ${exponentMax}`);
  if (isInverse && base.n === 0n) throw new ArithmeticFault("division by zero");
  const size = Math.max(bits(base.n) - 1, bits(base.d) - 1) * Number(times);
  if (size > bitsMax) {
    if (isWhole(base) && !isInverse) throw new ArithmeticFault(`the number has more than ${digitsMax} digits`);
    return approximate(toNumber(base) ** Number(signed(exponent)));
  }
  const raised = rational(signed(base) ** times, base.d ** times);
  return isInverse ? divide(whole(1n), raised) : raised;
}

/** Exact for squares of fractions. */
export function squareRoot(a: Rational): Rational {
  if (isNegative(a)) throw new ArithmeticFault("the square root of a negative number is not a real number");
  const num = wholeRoot(a.n);
  const den = wholeRoot(a.d);
  return num !== null && den !== null ? rational(num, den) : fromNumber(Math.sqrt(toNumber(a)));
}

/** Formats a number as a decimal: exact if it is short enough, otherwise rounded. */
export function format(value: Rational): string {
  const { n: num, d: den } = value;
  const sign = isNegative(value) ? "-" : "";
  if (isWhole(value)) return `${sign}${num}`;
  const scaled = num * 10n ** BigInt(fractionDigitsMax);
  if (scaled % den === 0n) return sign + plain(scaled / den, fractionDigitsMax);
  // Find the power of ten of the first digit, then the digits to show.
  let exponent = String(num).length - String(den).length;
  if (num * tenTo(-exponent) < den * tenTo(exponent)) exponent--;
  const shift = significantDigits - 1 - exponent;
  const over = num * tenTo(shift);
  const under = den * tenTo(-shift);
  const digits = (2n * over + under) / (2n * under);
  if (exponent >= -7 && shift >= 0) return sign + plain(digits, shift);
  const text = String(digits);
  const first = exponent + text.length - significantDigits;
  return `${sign}${plain(BigInt(text), text.length - 1)}e${first < 0 ? "" : "+"}${first}`;
}

/** Returns digits with a point before the last `places` of them, without trailing zeros. */
function plain(digits: bigint, places: number): string {
  const text = String(digits).padStart(places + 1, "0");
  const fraction = text.slice(text.length - places).replace(/0+$/, "");
  return text.slice(0, text.length - places) + (places > 0 && fraction !== "" ? `.${fraction}` : "");
}

function tenTo(exponent: number): bigint {
  return exponent > 0 ? 10n ** BigInt(exponent) : 1n;
}

const limit = 10n ** BigInt(digitsMax);

function bits(value: bigint): number {
  return (value < 0n ? -value : value).toString(2).length;
}

/** Refuses zero, because the exact number is not zero. */
function approximate(value: number): Rational {
  if (value === 0) throw new ArithmeticFault("the result is out of range");
  return fromNumber(value);
}

/** Returns the integer nearest to a quotient; ties go to the even one. */
function nearest(num: bigint, den: bigint): bigint {
  const size = num < 0n ? -num : num;
  const quotient = size / den;
  const twice = 2n * (size - quotient * den);
  const rounded = twice > den || (twice === den && quotient % 2n === 1n) ? quotient + 1n : quotient;
  return num < 0n ? -rounded : rounded;
}

/** Returns `value` times two to the power of `exponent`, in two steps, because the power alone may overflow. */
function scale(value: number, exponent: number): number {
  const half = Math.trunc(exponent / 2);
  return value * 2 ** half * 2 ** (exponent - half);
}

/** Returns the root of a square, null for any other number (Newton's method on integers). */
function wholeRoot(square: bigint): bigint | null {
  if (square < 2n) return square;
  let root = 1n << BigInt((bits(square) >> 1) + 1);
  while (true) {
    const next = (root + square / root) >> 1n;
    if (next >= root) break;
    root = next;
  }
  return root * root === square ? root : null;
}
