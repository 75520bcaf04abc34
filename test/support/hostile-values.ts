// Values of the highest cost for their size: for each field six forms, valid by its schema, with its lists and texts at
// their bounds.

export interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly default?: unknown;
}

/** Entries of an unbounded list, and members of an object. */
const entriesMax = 30_000;
const membersMax = 900;

type Form = (length: number, at: number) => string;

/** Hostile texts of a length; `at` makes those of a list distinct. */
const texts: Readonly<Record<string, Form>> = {
  blanks: (length) => "\u3000".repeat(length),
  "one word": (length, at) => `w${at}`.padEnd(length, "a").slice(0, length),
  "Han signs": (length, at) =>
    Array.from({ length }, (_, sign) => String.fromCharCode(0x4e00 + ((at * 31 + sign * 7) % 20_000))).join(""),
  templates: (length) => "$1 {{$@}}/*?[a-".repeat(Math.ceil(length / 14)).slice(0, length),
  "names alike": (length, at) => `calculator_${at}`.padEnd(Math.min(length, 60), "x").slice(0, length),
  marks: (length) => "e\u0301\u200d".repeat(Math.ceil(length / 3)).slice(0, length),
};
export const forms = Object.keys(texts);

/** A value of a field, with about `room` characters in it. */
export function filled(schema: Schema, field: string, form: string, room: number, at = 0): unknown {
  const text = texts[form] as Form;
  const shaped = shapes[field.slice(field.lastIndexOf(".") + 1)];
  if (shaped !== undefined) return shaped((length, part) => text(length, part), room, at, form);
  const [first] = schema.anyOf ?? [];
  if (first !== undefined) return filled(first, field, form, room, at);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  switch ([schema.type].flat()[0]) {
    case "array": {
      const count = Math.min(schema.maxItems ?? entriesMax, Math.max(1, Math.floor(room / 12)));
      const each = Math.floor(room / count);
      return Array.from({ length: count }, (_, item) => filled(schema.items ?? {}, "", form, each, item));
    }
    case "object":
      return filledObject(schema, form, room, at);
    case "integer":
    case "number":
      return schema.minimum ?? (schema.exclusiveMinimum ?? 0) + 1;
    case "boolean":
      return true;
    case "string":
      return text(Math.min(schema.maxLength ?? room, room), at);
    default:
      return anyValue(form, room);
  }
}

function filledObject(schema: Schema, form: string, room: number, at: number): object {
  const { properties = {}, required = [], additionalProperties, maxProperties = membersMax } = schema;
  const needed = Object.entries(properties).filter(
    ([name, { default: byDefault }]) =>
      Object.hasOwn(shapes, name) || (required.includes(name) && byDefault === undefined),
  );
  if (Object.keys(properties).length > 0)
    return Object.fromEntries(
      needed.map(([name, field]) => [name, filled(field, name, form, Math.floor(room / needed.length), at)]),
    );
  const count = Math.min(maxProperties, Math.max(1, Math.floor(room / 24)));
  const value = typeof additionalProperties === "object" ? additionalProperties : { type: "string" };
  const each = Math.max(1, Math.floor(room / count) - 20);
  return Object.fromEntries(
    Array.from({ length: count }, (_, member) => [
      `${(texts[form] as Form)(12, member)}${member}`,
      filled(value, "", form, each, member),
    ]),
  );
}

/** Where a schema has no constraint, each form is another kind of value. */
function anyValue(form: string, room: number): unknown {
  const text = texts[form] as Form;
  switch (form) {
    case "one word":
      return Array.from({ length: entriesMax }, (_, at) => text(6, at));
    case "Han signs":
      return Array.from({ length: 30 }, () => filledObject({}, form, room / 60, 0));
    case "templates": {
      let deep: unknown = text(room / 2, 0);
      for (let level = 0; level < 50; level++) deep = [deep, ...Array(200).fill(level)];
      return deep;
    }
    case "names alike":
      return Array.from({ length: 9_000 }, (_, at) => ({ type: text(20, at), name: "a" }));
    default:
      return text(room, 0);
  }
}

type Shape = (text: Form, room: number, at: number, form: string) => unknown;

/** Valid values of fields that have a parser of their own, or a fixed set of values, so that they get far. */
const shapes: Readonly<Record<string, Shape>> = {
  role: () => "user",
  content: (text, room, at) =>
    at % 2 === 0 || room < 100 ? text(room, at) : [{ type: "text", text: text(room - 40, at) }],
  tool_calls: (text, room, at) =>
    Array.from({ length: Math.min(9_000, Math.floor(room / 90)) }, (_, call) => calls(text, at * 9_000 + call)),
  tools: (text) =>
    Array.from({ length: 128 }, (_, tool) => {
      const described = { name: `tool_${tool}`, description: text(200, tool), parameters: wide(20) };
      return { type: "function", ...described, function: described };
    }),
  response_format: (_text, _room, _at, form) => ({
    type: "json_schema",
    json_schema: { name: "answer", schema: schemas[form]?.() },
  }),
  text: (_text, _room, _at, form) => ({
    format: { type: "json_schema", name: "answer", schema: schemas[form]?.() },
  }),
  output_schema: (_text, _room, _at, form) => schemas[form]?.(),
  args_schema: (_text, _room, _at, form) => schemas[form]?.(),
  input: (text, room, _at, form) => {
    const count = Math.min(9_900, Math.floor(room / 90));
    return Array.from({ length: count }, (_, item) => items[form]?.(text, Math.floor(room / count), item, form));
  },
};

function calls(text: Form, at: number): object {
  return {
    id: `c${at}`,
    type: "function",
    function: { name: `tool_${at % 128}`, arguments: JSON.stringify({ a: text(8, at) }) },
  };
}

const items: Readonly<Record<string, Shape>> = {
  blanks: (text, room, at) => ({ role: "user", content: text(room, at) }),
  "one word": (_text, _room, at) => ({ type: "function_call", name: "tool", arguments: "{}", call_id: `c${at}` }),
  "Han signs": (text, room, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content: text(room, at) }),
  templates: (text, _room, at) =>
    at % 2 === 0
      ? { type: "function_call", name: "tool_1", arguments: "{}", call_id: `c${at}` }
      : { type: "function_call_output", call_id: `c${at - 1}`, output: text(20, at) },
  "names alike": (text, _room, at) => ({ type: text(20, at) }),
  marks: (text, room, at) => ({ role: "assistant", content: [{ type: "output_text", text: text(room, at) }] }),
};

function wide(count: number): object {
  const names = Array.from({ length: count }, (_, at) => `p${at}`);
  return { type: "object", properties: Object.fromEntries(names.map((name) => [name, {}])), required: names };
}

/** Schemas of at most 16,384 characters. */
const schemas: Readonly<Record<string, () => object>> = {
  blanks: () => ({ type: "object", properties: { a: { enum: Array.from({ length: 1_900 }, (_, at) => at) } } }),
  "one word": () => ({ ...wide(700), additionalProperties: false }),
  "Han signs": () => ({
    type: "object",
    properties: { a: { $ref: "#/$defs/d0" } },
    $defs: Object.fromEntries(
      Array.from({ length: 300 }, (_, at) => [`d${at}`, at === 299 ? {} : { items: { $ref: `#/$defs/d${at + 1}` } }]),
    ),
  }),
  templates: () => ({
    type: "object",
    properties: { a: { anyOf: Array(350).fill({ $ref: "#/$defs/d" }) } },
    $defs: { d: { properties: { b: { type: "string" } }, required: ["b"] } },
  }),
  "names alike": () => ({
    type: "object",
    anyOf: Array.from({ length: 490 }, (_, at) => ({ const: `calculator_${at}` })),
  }),
  marks: () => ({
    type: "object",
    properties: { a: { $ref: "#/$defs/d8" } },
    $defs: Object.fromEntries(
      Array.from({ length: 9 }, (_, at) => [
        `d${at}`,
        at === 0 ? { type: "null" } : { anyOf: Array(2).fill({ $ref: `#/$defs/d${at - 1}` }) },
      ]),
    ),
  }),
};
