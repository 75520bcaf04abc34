import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { evaluate } from "../../../../actors/tools/calculator/arithmetic.ts";
import {
  ArithmeticFault,
  add,
  divide,
  floor,
  format,
  fromNumber,
  modulo,
  multiply,
  type Rational,
  rational,
  round,
  subtract,
  toNumber,
  whole,
} from "../../../../actors/tools/calculator/rational.ts";
import { runs } from "../../../support/effort.ts";

const values: [string, string][] = [
  ["2 + 3 * 4", "14"],
  ["(2 + 3) * 4", "20"],
  ["2 - 3 - 4", "-5"],
  ["100 / 10 / 5", "2"],
  ["2 ** 3 ** 2", "512"],
  ["2 ^ 10", "1024"],
  ["-2 ** 2", "-4"],
  ["(-2) ** 2", "4"],
  ["2 ** -2", "0.25"],
  ["--3", "3"],
  ["7 // 2", "3"],
  ["-7 // 2", "-4"],
  ["7 // -2", "-4"],
  ["7 % 3", "1"],
  ["-7 % 3", "2"],
  ["7 % -3", "-2"],
  ["5.5 % 2", "1.5"],
  ["1e3", "1000"],
  ["1.5E-3", "0.0015"],
  [".5 + 5.", "5.5"],
  ["19.99 * 3", "59.97"],
  ["1 / 3", "0.333333333333333"],
  ["2 / 3", "0.666666666666667"],
  ["1 / 3 * 3", "1"],
  ["10 ** 20 / 3", "3.33333333333333e+19"],
  ["1 / 3 / 10 ** 12", "3.33333333333333e-13"],
  ["-1 / 3", "-0.333333333333333"],
  ["abs(-2.5)", "2.5"],
  ["round(2.5)", "3"],
  ["round(-2.5)", "-3"],
  ["round(1.005, 2)", "1.01"],
  ["round(1234, -2)", "1200"],
  ["floor(-1.5)", "-2"],
  ["ceil(-1.5)", "-1"],
  ["min(3, 1, 2) + max(3, 1, 2)", "4"],
  ["sqrt(16)", "4"],
  ["sqrt(2.25)", "1.5"],
  ["sqrt(2)", "1.4142135623730951"],
  ["sqrt(10 ** 100)", `1${"0".repeat(50)}`],
  ["4 ** 0.5", "2"],
  ["ln(e)", "1"],
  ["log10(1000)", "3"],
  ["exp(0) + sin(0) + cos(0) + tan(0)", "2"],
  ["pi", "3.141592653589793"],
  ["(1 + 0.0375 / 12) ** 360", "3.074818395214783"],
  ["0 ** 0.5", "0"],
  ["1 ** 10000", "1"],
  ["2 ** 1328 - 2 ** 1328", "0"],
];
for (const [expression, value] of values) {
  test(`${expression} is ${value.slice(0, 40)}`, () => {
    assert.equal(format(evaluate(expression)), value);
  });
}

const faults: [string, RegExp][] = [
  ["", /ends too early/],
  ["1 +", /ends too early/],
  ["(1", /ends too early/],
  ["1)", /unexpected "\)"/],
  ["1 2", /unexpected "2"/],
  ["1 $ 2", /unexpected "\$"/],
  ["abs", /unknown name "abs"/],
  ["eval(1)", /unknown name "eval"/],
  ["toString()", /unexpected|unknown/],
  ["hasOwnProperty(1)", /unknown name/],
  ["abs(1, 2)", /takes 1 numbers/],
  ["round(1, 2, 3)", /takes 1 to 2 numbers/],
  ["round(1, 0.5)", /whole number of digits/],
  ["1 / 0", /division by zero/],
  ["1 // 0", /division by zero/],
  ["1 % 0", /division by zero/],
  ["0 ** -1", /division by zero/],
  ["sqrt(-1)", /negative/],
  ["(-8) ** 0.5", /negative/],
  ["ln(0)", /logarithm/],
  ["exp(1000)", /out of range/],
  ["2 ** 10001", /exponent is over 10000/],
  ["9 ** 9 ** 9", /exponent is over 10000/],
  ["10 ** 400", /more than 400 digits/],
  ["10 ** 399 * 10", /more than 400 digits/],
  ["1e401", /more than 400 digits/],
  ["1e999999999999", /more than 400 digits/],
  ["(1 / 3) ** 10000", /out of range/],
  ["1".repeat(501), /longer than 500/],
  [`${"(".repeat(51)}1${")".repeat(51)}`, /nested deeper than 50/],
  [`${"-".repeat(51)}1`, /nested deeper than 50/],
  [`${"2**".repeat(51)}1`, /nested deeper than 50/],
];
for (const [expression, reason] of faults) {
  test(`${expression.slice(0, 30) || "nothing"} is refused: ${reason.source}`, () => {
    assert.throws(
      () => evaluate(expression),
      (error) => error instanceof ArithmeticFault && reason.test(error.message),
    );
  });
}

const fraction = fc
  .tuple(fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }), fc.bigInt({ min: 1n, max: 10n ** 30n }))
  .map(([num, den]) => rational(num, den));

test("fractions obey the laws of arithmetic exactly", () => {
  const zero = whole(0n);
  fc.assert(
    fc.property(fraction, fraction, fraction, (a, b, c) => {
      assert.deepEqual(add(a, b), add(b, a));
      assert.deepEqual(add(add(a, b), c), add(a, add(b, c)));
      assert.deepEqual(multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c)));
      assert.deepEqual(subtract(a, a), zero);
      if (b.n !== 0n) {
        assert.deepEqual(multiply(divide(a, b), b), a);
        assert.deepEqual(add(multiply(floor(divide(a, b)), b), modulo(a, b)), a);
        const rest = modulo(a, b);
        assert.ok(rest.n === 0n || rest.s === b.s);
      }
      assert.equal(a.compare(b), -b.compare(a) + 0);
      assert.ok(round(a, 0n).equals(a) || Math.abs(toNumber(subtract(round(a, 0n), a))) <= 0.5);
    }),
  );
});

test("a floating-point number survives conversion to a fraction and back", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      assert.equal(toNumber(fromNumber(value)), value === 0 ? 0 : value);
    }),
    { numRuns: runs(2000) },
  );
});

test("a number near zero, which keeps fewer bits, survives it too", () => {
  for (const value of [1.220734650092114e-308, -1.220734650092114e-308, Number.MIN_VALUE, 2.2250738585072014e-308])
    assert.equal(toNumber(fromNumber(value)), value);
  fc.assert(
    fc.property(fc.double({ min: -1e-307, max: 1e-307, noNaN: true }), (value) => {
      assert.equal(toNumber(fromNumber(value)), value === 0 ? 0 : value);
    }),
    { numRuns: runs(2000) },
  );
});

test("a shown result reads back as the number, to the digits shown", () => {
  fc.assert(
    fc.property(fraction, (value) => {
      const back = Number(format(value));
      const exact = toNumber(value);
      assert.ok(Math.abs(back - exact) <= Math.abs(exact) * 1e-14, `${format(value)} for ${value.toFraction()}`);
    }),
  );
});

/** An expression with its value by other means: whole numbers as JavaScript computes them. */
const tree: fc.Arbitrary<{ text: string; value: bigint }> = fc.letrec<{ node: { text: string; value: bigint } }>(
  (tie) => ({
    node: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      fc.bigInt({ min: 0n, max: 10n ** 6n }).map((value) => ({ text: String(value), value })),
      tie("node").map(({ text, value }) => ({ text: `-(${text})`, value: -value })),
      fc.tuple(tie("node"), tie("node"), fc.constantFrom("+", "-", "*")).map(([a, b, sign]) => ({
        text: `(${a.text}) ${sign} (${b.text})`,
        value: sign === "+" ? a.value + b.value : sign === "-" ? a.value - b.value : a.value * b.value,
      })),
    ),
  }),
).node;

test("whole numbers are computed exactly, in any expression", () => {
  fc.assert(
    fc.property(tree, ({ text, value }) => {
      fc.pre(text.length <= 500);
      assert.equal(format(evaluate(text)), String(value));
    }),
    { numRuns: runs(500) },
  );
});

test("any text has a value or a reason", () => {
  const piece = fc.constantFrom(
    "1",
    "2.5",
    "1e9",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "^",
    "(",
    ")",
    ",",
    "sqrt",
    "round(",
    "max(",
    "pi",
    "x",
    " ",
  );
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.array(piece, { maxLength: 30 }).map((parts) => parts.join("")),
  );
  fc.assert(
    fc.property(text, (expression) => {
      let value: Rational;
      try {
        value = evaluate(expression);
      } catch (error) {
        assert.ok(error instanceof ArithmeticFault, String(error));
        return;
      }
      assert.match(format(value), /^-?\d+(?:\.\d+)?(?:e[+-]\d+)?$/);
    }),
    { numRuns: runs(5000) },
  );
});
