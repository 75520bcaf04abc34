import fc from "fast-check";

// Values for the fields of a JSON schema: matching ones, others, and known traps for parsers.

/** The part of JSON Schema that the reference and the manifests use. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
}

/** Values for a field of this name, independent of its schema: ids of existing things. */
export type Hints = Readonly<Record<string, fc.Arbitrary<unknown>>>;

/** Texts with a meaning to some parser: of paths, SQL, streams, logs, numbers or templates. */
export const trickyTexts: readonly string[] = [
  "",
  " ",
  "\0",
  "a\0b",
  "\r\n",
  "x\r\nx-request-id: forged\r\n\r\n",
  "\n\ndata: [DONE]\n\n",
  "\n\nid: 99\nevent: error\ndata: {}\n\n",
  "data: x",
  "\u2028\u2029\u0085",
  "\ud800",
  "x\udfff",
  "\u202egnp.exe",
  "\ufeff",
  "e\u0301\u200b\u00ad",
  "\u0130\u0131\u00df\u017f",
  "👩‍👩‍👧‍👦".repeat(9),
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "hasOwnProperty",
  "null",
  "undefined",
  "NaN",
  "true",
  "-0",
  "1e309",
  "9007199254740993",
  "-9223372036854775809",
  ".",
  "..",
  "../../etc/passwd",
  "..\\..\\windows",
  "/etc/passwd",
  "%2e%2e%2f",
  "%00",
  "%",
  "a/b",
  "a:b",
  "acme:t1",
  "globex:t1",
  "#fragment",
  "file:///etc/passwd",
  "http://169.254.169.254/",
  "' OR 1=1 --",
  '"; DROP TABLE threads; --',
  "\\",
  "$1",
  "%s%n",
  '"a" OR "b" NEAR(c, 2)',
  "a* AND (b",
  "^content : x -y",
  "((((((((",
  `\${7*7}{{7*7}}<%= 7 %>`,
  "$ARGUMENTS $1 $@",
  "/summarize x",
  "secret:SVC_AUTH_API_KEYS",
  "<script>alert(1)</script>",
  "\u001b[31mred",
  "{broken",
  "[".repeat(200),
  "a".repeat(201),
  "é".repeat(300),
  `${"a".repeat(30)}!`,
];

/** A text of any kind; at most a few hundred characters. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...trickyTexts) },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  { weight: 1, arbitrary: fc.string({ unit: "grapheme", maxLength: 40 }) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...trickyTexts), fc.string({ maxLength: 8 })).map((parts) => parts.join("")),
  },
);

/** A number of any kind that JSON can express. */
const anyNumber: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(0, -0, 1, -1, 0.5, 2 ** 31, 2 ** 32, 2 ** 53 - 1, -(2 ** 53), 1e300, -1e300, 5e-324, 8.64e15),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

/** Nested lists and objects, up to the bound and beyond. */
const deep: fc.Arbitrary<unknown> = fc
  .record({ depth: fc.integer({ min: 1, max: 80 }), list: fc.boolean() })
  .map((of) => {
    let value: unknown = 1;
    for (let at = 0; at < of.depth; at++) value = of.list ? [value] : { a: value };
    return value;
  });

/** A value that matches no schema in particular. */
export const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 5, arbitrary: anyText },
  { weight: 2, arbitrary: anyNumber },
  { weight: 2, arbitrary: fc.constantFrom<unknown>(null, true, false, [], {}, [[]], [null], { "": "" }) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  { weight: 1, arbitrary: deep },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 3000 }).map((length) => Array.from({ length }, (_, at) => at)) },
  { weight: 1, arbitrary: fc.integer({ min: 1, max: 60_000 }).map((length) => "x".repeat(length)) },
);

/** A value that the schema accepts, as far as its keywords are known here. */
export function fitting(schema: Schema, hints: Hints, name = ""): fc.Arbitrary<unknown> {
  const hint = hints[name];
  const bySchema = fittingSchema(schema, hints, name);
  return hint === undefined ? bySchema : fc.oneof({ weight: 6, arbitrary: hint }, { weight: 1, arbitrary: bySchema });
}

function fittingSchema(schema: Schema, hints: Hints, name: string): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((each) => fitting(each, hints, name)));
  if (schema.type === undefined) return fc.jsonValue({ maxDepth: 2 });
  const types = [schema.type].flat() as string[];
  return fc.oneof(...types.map((type) => fittingType(type, schema, hints, name)));
}

function fittingType(type: string, schema: Schema, hints: Hints, name: string): fc.Arbitrary<unknown> {
  switch (type) {
    case "null":
      return fc.constant(null);
    case "boolean":
      return fc.boolean();
    case "integer": {
      const { minimum = schema.exclusiveMinimum ?? -1000, maximum = 2 ** 53 - 1 } = schema;
      const near = fc.integer({ min: minimum, max: Math.min(maximum, minimum + 1000) });
      return fc.oneof({ weight: 4, arbitrary: near }, { weight: 1, arbitrary: fc.constantFrom(minimum, maximum) });
    }
    case "number": {
      const { minimum = schema.exclusiveMinimum ?? -1000, maximum = minimum + 1e6 } = schema;
      return fc.double({ min: minimum, max: maximum, noNaN: true });
    }
    case "string":
      return fittingText(schema);
    case "array": {
      const { items = {}, minItems = 0, maxItems = 4 } = schema;
      const maxLength = Math.max(minItems, Math.min(maxItems, 4));
      return fc.array(fitting(items, hints, `${name}[]`), { minLength: minItems, maxLength });
    }
    default:
      return fittingObject(schema, hints);
  }
}

function fittingText({ minLength = 0, maxLength = 300, pattern }: Schema): fc.Arbitrary<string> {
  if (pattern !== undefined)
    return fc.constantFrom("a", "ab-1", "owner/name", "dir/file.md", "windowed:5", "full_replay");
  const length = { minLength, maxLength: Math.min(maxLength, 60) };
  const tricky = trickyTexts.filter((text) => text.length >= minLength && text.length <= maxLength);
  return fc.oneof(fc.string(length), fc.string({ unit: "grapheme", ...length }), fc.constantFrom(...tricky));
}

function fittingObject(schema: Schema, hints: Hints): fc.Arbitrary<unknown> {
  const { properties, required = [], additionalProperties } = schema;
  if (properties === undefined || Object.keys(properties).length === 0) {
    if (typeof additionalProperties !== "object")
      return fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 });
    const key = fc.constantFrom("a", "main", "calculator", "x-1");
    return fc.dictionary(key, fitting(additionalProperties, hints), { maxKeys: 3 });
  }
  const fields = Object.entries(properties).map(([name, field]) => {
    const value = fitting(field, hints, name).map((given) => [[name, given] as const]);
    // Optional fields are mostly left out, or no request would be a plain one.
    return required.includes(name)
      ? value
      : fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: value });
  });
  return fc.tuple(...fields).map((entries) => Object.fromEntries(entries.flat()));
}

/** The value with a part replaced, removed or added. */
export function damaged(value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const damage = fc.record({
    at: fc.nat(10_000),
    how: fc.constantFrom("replace", "remove", "add", "wrap"),
    by: anyValue,
    key: anyText,
  });
  return fc.tuple(value, fc.array(damage, { minLength: 1, maxLength: 3 })).map(([whole, damages]) =>
    damages.reduce((before, { at, how, by, key }) => {
      const places = count(before);
      return edit(before, { left: at % places }, (old) => {
        if (how === "wrap") return [old];
        if (how === "replace") return by;
        if (Array.isArray(old)) return how === "add" ? [...old, by] : old.slice(1);
        if (typeof old !== "object" || old === null) return by;
        const entries = Object.entries(old);
        return Object.fromEntries(how === "add" ? [...entries, [key, by]] : entries.slice(1));
      });
    }, whole),
  );
}

function count(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((sum: number, each) => sum + count(each), 1);
}

/** The value with the part at an index, counted from the outside in, replaced. */
function edit(value: unknown, place: { left: number }, change: (old: unknown) => unknown): unknown {
  if (place.left-- === 0) return change(value);
  if (Array.isArray(value)) return value.map((each) => (place.left < 0 ? each : edit(each, place, change)));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, place.left < 0 ? each : edit(each, place, change)]),
  );
}

/** Fragments that a JSON text must not, or should not, contain. */
const splinters = [
  '"__proto__":{"admin":true},',
  '"constructor":{"prototype":{"admin":true}},',
  '"manifest":"agent",',
  '"thread_id":"t1",',
  ",",
  "{",
  "}",
  "[",
  "]",
  '"',
  "\\u0000",
  "\\ud800",
  "\\",
  "\0",
  "\n",
  "NaN",
  "1e999",
  "12345678901234567890",
  "//",
  "\ufeff",
  "\u{1f600}",
];

/** The JSON text of a value; sometimes with a fragment inserted, or truncated. */
export function jsonText(value: fc.Arbitrary<unknown>): fc.Arbitrary<string> {
  const plain = value.map((given) => JSON.stringify(given) ?? "null");
  const at = fc.nat(10_000);
  const splintered = fc
    .tuple(plain, at, fc.constantFrom(...splinters))
    .map(([text, place, splinter]) => insert(text, place % (text.length + 1), splinter));
  const cut = fc.tuple(plain, at).map(([text, place]) => text.slice(0, place % (text.length + 1)));
  return fc.oneof(
    { weight: 14, arbitrary: plain },
    { weight: 2, arbitrary: splintered },
    { weight: 1, arbitrary: cut },
    { weight: 1, arbitrary: anyText },
  );
}

function insert(text: string, at: number, what: string): string {
  return text.slice(0, at) + what + text.slice(at);
}
