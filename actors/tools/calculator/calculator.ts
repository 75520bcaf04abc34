import { Type } from "../../../bus/type.ts";
import { defineTool, toolError } from "../tool.ts";
import { evaluate, expressionCharsMax } from "./arithmetic.ts";
import { ArithmeticFault, format } from "./rational.ts";

/** Evaluates arithmetic only: the language has no names except constants and functions. */
export const calculator = defineTool({
  name: "calculator",
  description:
    "Evaluates an arithmetic expression. Fractions are exact. Operators: + - * / // (floor division) % (sign of the divisor) ** or ^ " +
    "(power), parentheses. Functions: abs, round(x, digits) (halves away from zero), floor, ceil, min, max, sqrt, ln, log10, exp, and " +
    "sin, cos, tan in radians. Constants: pi, e.",
  parameters: Type.Object(
    {
      expression: Type.String({
        description: `The expression, as in (19.99 * 3 + 5) / 2 ** 4, of at most ${expressionCharsMax} characters.`,
      }),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  execute({ expression }) {
    try {
      return { text: format(evaluate(expression)) };
    } catch (error) {
      if (!(error instanceof ArithmeticFault)) throw error;
      return toolError("invalid_arguments", `invalid expression: ${error.message}`);
    }
  },
});
