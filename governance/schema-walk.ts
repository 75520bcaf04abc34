import { breathe, type Env } from "../bus/env.ts";
import type { SchemaNode } from "./compiled-schema.ts";

// Validates a value against a compiled schema by walking both. The work is counted in steps: a schema node at a value, a
// property, or 64 characters of a string. A tenant writes the schema and a model the value, so their product is unbounded.

/** Max steps of one check (decision 219: no schema may stall other tenants). A value that needs more is invalid. */
const stepsMax = 1_000_000;
/** Steps between two yields to the event loop: about two milliseconds. */
const stepsAtOnce = 20_000;

/** The first violation of the schema. */
export interface Misfit {
  readonly path: readonly (string | number)[];
  readonly keyword: string;
  /** A phrase that follows the path. */
  readonly message: string;
  /** The missing or unknown property, or the allowed values. */
  readonly about?: unknown;
}

/**
 * Returns the first violation; null if the value is valid. Yields to the event loop every `stepsAtOnce` steps. A check of more
 * than `stepsMax` steps returns a violation with the keyword `steps`.
 */
export async function schemaMisfit(root: SchemaNode, value: unknown, env: Pick<Env, "defer">): Promise<Misfit | null> {
  const walk = new Walk();
  try {
    const check = walk.check(root, value, null);
    for (;;) {
      const step = check.next();
      if (step.done) return step.value;
      await breathe(env);
    }
  } catch (error) {
    if (!(error instanceof TooManySteps)) throw error;
    return { path: [], keyword: "steps", message: `takes more than ${stepsMax} steps to check` };
  }
}

class TooManySteps extends Error {}

/** A position in the value, innermost first. It becomes a path only when there is a violation. */
interface At {
  readonly key: string | number;
  readonly within: At | null;
}

type Check = Generator<void, Misfit | null, void>;

class Walk {
  #steps = 0;
  #pauseAt = stepsAtOnce;

  *check(node: SchemaNode, value: unknown, at: At | null): Check {
    this.#spend(1);
    if (this.#steps >= this.#pauseAt) {
      this.#pauseAt = this.#steps + stepsAtOnce;
      yield;
    }
    const found = this.#plain(node, value, at);
    if (found !== null || node.isPlain) return found;
    const combined = yield* this.#combined(node, value, at);
    if (combined !== null) return combined;
    if (Array.isArray(value)) return yield* this.#list(node, value, at);
    if (typeof value === "object" && value !== null)
      return yield* this.#object(node, value as Readonly<Record<string, unknown>>, at);
    return null;
  }

  /** Checks the keywords that need no other node. */
  #plain(node: SchemaNode, value: unknown, at: At | null): Misfit | null {
    const { types, constant, oneOfValues } = node;
    if (node.never) return misfit(at, "false schema", "boolean schema is false");
    if (types.length > 0 && !types.some((type) => isOf(type, value)))
      return misfit(at, "type", `must be ${types.join(",")}`);
    if (typeof value === "number") {
      const found = numberMisfit(node, value, at);
      if (found !== null) return found;
    } else if (typeof value === "string") {
      const found = this.#text(node, value, at);
      if (found !== null) return found;
    }
    if (constant !== null && !this.#equal(constant.value, value))
      return misfit(at, "const", "must be equal to constant");
    if (oneOfValues !== null && !oneOfValues.scalars.has(value) && !this.#isAmong(oneOfValues.others, value))
      return misfit(at, "enum", "must be equal to one of the allowed values", oneOfValues.all);
    return this.#size(node, value, at);
  }

  /** Checks the number of items or properties. */
  #size(
    { maxItems, minItems, maxProperties, minProperties }: SchemaNode,
    value: unknown,
    at: At | null,
  ): Misfit | null {
    if (typeof value !== "object" || value === null) return null;
    const [most, least, what] = Array.isArray(value)
      ? ([maxItems, minItems, "Items"] as const)
      : ([maxProperties, minProperties, "Properties"] as const);
    if (most === undefined && least === undefined) return null;
    const size = Array.isArray(value) ? value.length : this.#keys(value).length;
    if (most !== undefined && size > most)
      return misfit(at, `max${what}`, `must NOT have more than ${most} ${what.toLowerCase()}`);
    if (least !== undefined && size < least)
      return misfit(at, `min${what}`, `must NOT have fewer than ${least} ${what.toLowerCase()}`);
    return null;
  }

  #keys(value: object): string[] {
    const keys = Object.keys(value);
    this.#spend(keys.length);
    return keys;
  }

  #text({ maxLength, minLength, pattern }: SchemaNode, value: string, at: At | null): Misfit | null {
    // A character has one or two UTF-16 units, so count only if the length alone does not decide.
    if (maxLength !== undefined && value.length > maxLength && this.#characters(value) > maxLength)
      return misfit(at, "maxLength", `must NOT have more than ${maxLength} characters`);
    if (minLength !== undefined && value.length < 2 * minLength && this.#characters(value) < minLength)
      return misfit(at, "minLength", `must NOT have fewer than ${minLength} characters`);
    if (pattern?.test(value) === false) return misfit(at, "pattern", `must match pattern "${pattern.source}"`);
    return null;
  }

  /** Returns the number of code points. */
  #characters(text: string): number {
    this.#spend(text.length >> 6);
    let characters = text.length;
    for (let at = 1; at < text.length; at++)
      if (isLow(text.charCodeAt(at)) && isHigh(text.charCodeAt(at - 1))) characters--;
    return characters;
  }

  *#combined({ ref, not, anyOf, oneOf, allOf }: SchemaNode, value: unknown, at: At | null): Check {
    if (ref !== null) {
      const found = yield* this.check(ref, value, at);
      if (found !== null) return found;
    }
    if (not !== null && (yield* this.check(not, value, at)) === null) return misfit(at, "not", "must NOT be valid");
    if (anyOf !== null) {
      const found = yield* this.#any(anyOf, value, at);
      if (found !== null) return found;
    }
    if (oneOf !== null) {
      let fitting = 0;
      let first: Misfit | null = null;
      for (const part of oneOf) {
        const found = yield* this.check(part, value, at);
        first ??= found;
        if (found === null && ++fitting > 1) return misfit(at, "oneOf", "must match exactly one schema in oneOf");
      }
      if (fitting === 0) return first;
    }
    for (const part of allOf) {
      const found = yield* this.check(part, value, at);
      if (found !== null) return found;
    }
    return null;
  }

  /** Returns the violation of the first alternative if none matches. */
  *#any(parts: readonly SchemaNode[], value: unknown, at: At | null): Check {
    let first: Misfit | null = null;
    for (const part of parts) {
      const found = yield* this.check(part, value, at);
      if (found === null) return null;
      first ??= found;
    }
    return first;
  }

  *#list({ items }: SchemaNode, value: readonly unknown[], at: At | null): Check {
    if (items === null) return null;
    for (const [key, item] of value.entries()) {
      const found = yield* this.check(items, item, { key, within: at });
      if (found !== null) return found;
    }
    return null;
  }

  *#object(node: SchemaNode, value: Readonly<Record<string, unknown>>, at: At | null): Check {
    const { required, properties, additionalProperties } = node;
    this.#spend(required.length + properties.size);
    for (const name of required)
      if (!Object.hasOwn(value, name)) return misfit(at, "required", `must have required property '${name}'`, name);
    if (additionalProperties !== null)
      for (const key of this.#keys(value)) {
        if (properties.has(key)) continue;
        if (additionalProperties.never)
          return misfit(at, "additionalProperties", "must NOT have additional properties", key);
        const found = yield* this.check(additionalProperties, value[key], { key, within: at });
        if (found !== null) return found;
      }
    for (const [key, part] of properties) {
      if (!Object.hasOwn(value, key)) continue;
      const found = yield* this.check(part, value[key], { key, within: at });
      if (found !== null) return found;
    }
    return null;
  }

  #isAmong(values: readonly unknown[], value: unknown): boolean {
    return typeof value === "object" && values.some((one) => this.#equal(one, value));
  }

  /** True if two JSON values are equal. */
  #equal(one: unknown, other: unknown): boolean {
    this.#spend(1);
    if (one === other) return true;
    if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
    if (Array.isArray(one) || Array.isArray(other))
      return (
        Array.isArray(one) &&
        Array.isArray(other) &&
        one.length === other.length &&
        one.every((item, at) => this.#equal(item, other[at]))
      );
    const keys = this.#keys(one);
    if (keys.length !== this.#keys(other).length) return false;
    return keys.every(
      (key) => Object.hasOwn(other, key) && this.#equal(Reflect.get(one, key), Reflect.get(other, key)),
    );
  }

  #spend(steps: number): void {
    this.#steps += steps;
    if (this.#steps > stepsMax) throw new TooManySteps();
  }
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}

function numberMisfit(node: SchemaNode, value: number, at: At | null): Misfit | null {
  const { maximum, minimum, exclusiveMaximum, exclusiveMinimum, multipleOf } = node;
  if (maximum !== undefined && value > maximum) return misfit(at, "maximum", `must be <= ${maximum}`);
  if (minimum !== undefined && value < minimum) return misfit(at, "minimum", `must be >= ${minimum}`);
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    return misfit(at, "exclusiveMaximum", `must be < ${exclusiveMaximum}`);
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return misfit(at, "exclusiveMinimum", `must be > ${exclusiveMinimum}`);
  if (multipleOf !== undefined && !Number.isInteger(value / multipleOf))
    return misfit(at, "multipleOf", `must be multiple of ${multipleOf}`);
  return null;
}

function misfit(at: At | null, keyword: string, message: string, about?: unknown): Misfit {
  const path: (string | number)[] = [];
  for (let place = at; place !== null; place = place.within) path.push(place.key);
  return { path: path.reverse(), keyword, message, about };
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number" && Number.isFinite(value);
    default:
      return typeof value === type;
  }
}
