import fc from "fast-check";
import { writeCursor } from "../../storage/store/cursor.ts";
import { anyText, anyValue, damaged, fitting, type Hints, jsonText, type Schema, trickyTexts } from "./values.ts";

// Requests made from the server's own reference: for every operation some valid ones, and many invalid ones.

/** An operation of the reference. */
export interface Operation {
  /** In upper case. */
  readonly method: string;
  /** With its parameters in braces. */
  readonly path: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  /** Empty when the operation needs no credentials. */
  readonly security: readonly object[];
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, object>> }>>;
}

/** Names of the server's keys. */
export const callers = ["all", "stranger", "none"] as const;

/** A request that can be reproduced. */
export interface FuzzRequest {
  readonly method: string;
  /** Of the operation, with its parameters in braces. */
  readonly template: string;
  readonly path: string;
  readonly query: string;
  /** The key of the request; null for none. */
  readonly caller: (typeof callers)[number] | null;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | undefined;
  /** Its path may lead to another operation, or to none. */
  readonly astray: boolean;
}

/** The part of a document that its operations share. */
export interface Reference {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Omit<Operation, "method" | "path">>>>>;
}

/** The operations of a document. */
export function operationsOf({ paths }: Reference): Operation[] {
  return Object.entries(paths).flatMap(([path, byMethod]) =>
    Object.entries(byMethod).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
}

const manifestNames = [
  "agent",
  "agent",
  "tools",
  "hostile",
  "hostile",
  "failing",
  "stored-1",
  "stored-2",
  "nobody",
] as const;
const threadIds = ["t1", "t2", "t3", "t4", "", "acme:t1", "späť 🦊", "a".repeat(200)] as const;
const models = [null, null, null, "plain", "nobody"] as const;
const cursorPart = fc.oneof(
  fc.constantFrom<string | number>(0, 1, -1, 2 ** 53 - 1, 1e300, "", "t1", "\0", "' OR 1=1 --"),
  fc.integer(),
  anyText.filter((text) => text.isWellFormed()),
);
const cursor = fc.oneof(
  fc.array(cursorPart, { maxLength: 3 }).map((key) => writeCursor(key)),
  fc.tuple(fc.nat(2 ** 45), cursorPart).map((key) => writeCursor(key)),
  anyText,
);
const eventNumber = fc.constantFrom(
  "0",
  "1",
  "2",
  "5",
  "999999",
  "-1",
  "1e3",
  " 3 ",
  "00",
  "9".repeat(15),
  "9".repeat(16),
);
const keyText = fc.constantFrom("key-1", "key-2", "key-3", "{}", "a b", "k".repeat(255), "k".repeat(256));
const content = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("hi", "list: it", "/summarize this", "hello ".repeat(50)) },
  { weight: 2, arbitrary: anyText },
  {
    weight: 1,
    arbitrary: fc.array(fc.record({ type: fc.constantFrom("text", "image_url", "input_audio"), text: anyText }), {
      maxLength: 3,
    }),
  },
  { weight: 1, arbitrary: fc.constant(null) },
);
const calls = fc.array(
  fc.record({
    id: anyText,
    type: fc.constant("function"),
    function: fc.record({ name: fc.oneof(fc.constant("calculator"), anyText), arguments: anyText }),
  }),
  { maxLength: 2 },
);
const roles = fc.constantFrom("user", "user", "user", "assistant", "system", "developer", "tool", "function", "");

/** For fields of requests, by their names. */
const hints: Hints = {
  manifest: fc.constantFrom(...manifestNames),
  manifest_id: fc.constantFrom(...manifestNames),
  name: fc.constantFrom(...manifestNames),
  thread_id: fc.constantFrom(...threadIds),
  user: fc.constantFrom(...threadIds),
  model: fc.constantFrom(...models),
  template: fc.constantFrom("summarize", "nobody"),
  file: fc.constantFrom("docs.js", "swagger-ui.css", "nobody.js"),
  role: roles,
  content,
  tool_calls: calls,
  version: fc.integer({ min: 1, max: 4 }),
  canary_version: fc.integer({ min: 1, max: 4 }),
  cursor,
  event_type: fc.constantFrom("user_input", "tool_call", "manifest_put"),
  status: fc.constantFrom("ok", "error", "denied"),
  "Last-Event-ID": eventNumber,
  last_event_id: eventNumber,
  "Idempotency-Key": keyText,
  stream: fc.boolean(),
  n: fc.constantFrom(1, 1, 2),
  max_tokens: fc.integer({ min: 1, max: 100 }),
};
/** Fields of /v1 with the same names and another meaning. */
const openAiHints: Hints = { ...hints, model: fc.constantFrom(...manifestNames) };

/** Few fields that turn the answer into a refusal: most requests must succeed. */
const refusedFields = new Set(["tools", "functions", "audio", "response_format", "logprobs", "n"]);

/** A request of the operation. `manifestOf` makes the manifests that are stored. */
export function requestOf(
  operation: Operation,
  manifestOf: (name: string) => fc.Arbitrary<unknown>,
): fc.Arbitrary<FuzzRequest> {
  const stored = operation.method === "PUT" && operation.path === "/manifests/{name}";
  const name = fc.constantFrom("stored-1", "stored-2");
  const parameters = operation.parameters ?? [];
  const path = stored
    ? name.map((given) => ({ path: `/manifests/${given}`, astray: false, name: given }))
    : pathOf(operation).map((given) => ({ ...given, name: "" }));
  return path.chain(({ path: target, astray, name: manifest }) =>
    fc
      .record({
        query: queryOf(parameters.filter((each) => each.in === "query")),
        caller: fc.oneof(
          { weight: 12, arbitrary: fc.constant("all" as const) },
          { weight: 2, arbitrary: fc.constant("stranger" as const) },
          { weight: 1, arbitrary: fc.constant("none" as const) },
          { weight: 1, arbitrary: fc.constant(null) },
        ),
        headers: headersOf(operation),
        body: bodyOf(operation, stored ? manifestOf(manifest) : null),
      })
      .map((drawn) => ({ method: operation.method, template: operation.path, path: target, astray, ...drawn })),
  );
}

/** Unusual segments, as written on the wire. */
const rawSegments = [
  "",
  ".",
  "..",
  "%2e%2e",
  "..%2f",
  "%2F",
  "a%2Fb",
  "a%5cb",
  "a\\b",
  "%00",
  "%0d%0a",
  "%",
  "%zz",
  "%c0%af",
  "%ff",
  "%25%32%65",
  "%252e%252e",
  "%ed%a0%80",
  "a;b=c",
  "*",
  "~",
  "%F0%9F%A6%8A",
  "__proto__",
  "t1/",
  "t1//",
  "t1/../t2",
  "T1",
  "x".repeat(1500),
];

function pathOf({ path, parameters = [] }: Operation): fc.Arbitrary<{ path: string; astray: boolean }> {
  const named = parameters.filter((each) => each.in === "path");
  if (named.length === 0) {
    const variant = fc.constantFrom(
      path,
      `${path}/`,
      `/.${path}`,
      path.toUpperCase(),
      `/${path}`,
      `${path}%20`,
      `${path};x`,
    );
    return fc.oneof(
      { weight: 15, arbitrary: fc.constant({ path, astray: false }) },
      { weight: 1, arbitrary: variant.map((other) => ({ path: other, astray: true })) },
    );
  }
  const segment = fc.oneof(
    { weight: 6, arbitrary: fitting({ type: "string" }, hints, named[0]?.name).map(String).map(asSegment) },
    { weight: 2, arbitrary: anyText.map(asSegment) },
    { weight: 2, arbitrary: fc.constantFrom(...rawSegments).map((text) => ({ text, astray: true })) },
  );
  return segment.map(({ text, astray }) => ({ path: path.replaceAll(/\{\w+\}/g, () => text), astray }));
}

/** A text as one segment of a path. `astray` is true if it leads to another route or to none. */
function asSegment(text: string): { text: string; astray: boolean } {
  const plain = text.toWellFormed();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return { text: encodeURIComponent(plain), astray: /^\.{0,2}$|[/\\%\x00-\x20\x7f]/.test(plain) };
}

/** Pieces of a query that are not `name=value`. */
const rawPieces = [
  "",
  "&",
  "=",
  "%",
  "%00=1",
  "a=%zz",
  "limit",
  "limit=",
  "limit[]=1",
  "a=1;b=2",
  "__proto__=1",
  "%ff=1",
  "+",
  "?",
];

function queryOf(parameters: readonly { readonly name: string; readonly schema: Schema }[]): fc.Arbitrary<string> {
  const given = parameters.map(({ name, schema }) => {
    const value = fc.oneof(
      { weight: 4, arbitrary: fitting(schema, hints, name) },
      { weight: 1, arbitrary: anyText },
      {
        weight: 1,
        arbitrary: anyValue.filter((each) => typeof each !== "object").map((each) => String(each).slice(0, 300)),
      },
    );
    const piece = value.map((each) => `${name}=${encodeURIComponent(String(each).toWellFormed())}`);
    return fc.oneof({ weight: 2, arbitrary: fc.constant(null) }, { weight: 2, arbitrary: piece });
  });
  const raw = fc.oneof(
    { weight: 5, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.constantFrom(...rawPieces) },
  );
  return fc.tuple(...given, raw).map((pieces) => pieces.filter((piece) => piece !== null).join("&"));
}

/** A text as the value of a header: without characters that end the line or, in some engines, the head. */
function asHeader(text: string): string {
  const plain = text.toWellFormed();
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  return plain.replaceAll(/[\x00-\x08\x0a-\x1f\x7f]/g, "").slice(0, 300);
}

function headersOf({ parameters = [], requestBody }: Operation): fc.Arbitrary<(readonly [string, string])[]> {
  const own = parameters
    .filter((each) => each.in === "header")
    .map(({ name, schema }) => {
      const value = fc.oneof({ weight: 4, arbitrary: fitting(schema, hints, name) }, { weight: 1, arbitrary: anyText });
      const header = value.map((each): [string, string][] => [[name, asHeader(String(each))]]);
      return fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: header });
    });
  const types = [
    ...Array(30).fill("application/json"),
    "application/json; charset=utf-8",
    "application/json; charset=utf-16",
    "text/plain",
    "",
    "multipart/form-data; boundary=x",
  ];
  const type = requestBody
    ? fc.constantFrom<string>(...types).map((each): [string, string][] => [["content-type", each]])
    : fc.constant<[string, string][]>([]);
  const text = anyText.map(asHeader);
  const others = fc.oneof(
    fc.tuple(fc.constantFrom("x-request-id", "accept", "if-match", "x-svc-lease-token", "user-agent", "cookie"), text),
    fc.tuple(fc.constantFrom("x-tenant-id", "x-svc-tenant", "x-forwarded-for", "x-forwarded-proto", "x-scopes"), text),
    fc.constantFrom<[string, string]>(
      ["origin", "http://evil.example.com"],
      ["origin", "null"],
      ["content-encoding", "gzip"],
      ["accept", "application/openmetrics-text"],
      ["authorization", "Basic YTpi"],
      ["authorization", "Bearer "],
      ["x-api-key", "[]"],
      ["x-http-method-override", "DELETE"],
      ["content-length", "99999999"],
      ["connection", "close"],
      ["x-request-id", "mine"],
      ["x-request-id", "other"],
      ["idempotency-key", "key-1"],
      ["last-event-id", "1"],
    ),
  );
  const few = fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(others, { maxLength: 3 }) },
  );
  return fc.tuple(type, few, ...own).map((lists) => lists.flat());
}

function bodyOf(
  { path, requestBody }: Operation,
  manifest: fc.Arbitrary<unknown> | null,
): fc.Arbitrary<string | undefined> {
  const schema = requestBody?.content["application/json"]?.schema;
  // A route without a body sometimes gets one.
  if (schema === undefined) return fc.constantFrom(undefined, undefined, undefined, undefined, "{}", "\0");
  const known = path.startsWith("/v1/") ? openAiHints : hints;
  const usual = path.startsWith("/v1/") ? { ...schema, properties: withoutRefused(schema) } : schema;
  const request = fitting(usual, manifest === null ? known : { ...known, manifest }).map((value) =>
    withMessage(value, path),
  );
  return jsonText(
    fc.oneof(
      { weight: 9, arbitrary: request },
      { weight: 4, arbitrary: damaged(request) },
      { weight: 1, arbitrary: fitting(schema, known) },
      { weight: 1, arbitrary: anyValue },
    ),
  );
}

function withoutRefused({ properties = {} }: Schema): Record<string, Schema> {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => !refusedFields.has(name)));
}

/** A turn needs a message. */
function withMessage(value: unknown, path: string): unknown {
  if (!/\/(chat|stream|completions)$/.test(path)) return value;
  const { messages, ...rest } = value as { messages?: unknown[] };
  return { ...rest, messages: [...(messages ?? []), { role: "user", content: "go on" }] };
}

/** Thread ids of any kind: valid ones, invalid ones, and those that resemble others. */
export const anyThreadId: fc.Arbitrary<string> = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom(...trickyTexts, ...threadIds) },
  { weight: 2, arbitrary: anyText },
  { weight: 1, arbitrary: fc.string({ unit: "binary", minLength: 1, maxLength: 210 }) },
);
