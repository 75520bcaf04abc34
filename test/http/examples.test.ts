// The examples of the reference: every operation has some, they match their schemas, and a server accepts them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { exampleOf } from "../../http/example.ts";
import { frames } from "../../http/schemas/frames.ts";
import { frameNames, frameProblem } from "../support/frame-shapes.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { type Frame, FrameReader } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";
import { nameOf, routes } from "./support.ts";

interface Media {
  // biome-ignore lint/suspicious/noExplicitAny: schemas are looked into by their keywords
  readonly schema: any;
  // biome-ignore lint/suspicious/noExplicitAny: examples are of any form
  readonly example?: any;
}
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: unknown }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly responses: Readonly<Record<string, { readonly content: Readonly<Record<string, Media>> }>>;
}

const nothing = { type: "null" };

describe("the examples of the reference", () => {
  const atEnd = cleanup();
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  let server: TestServer;
  let operations: [name: string, path: string, operation: Operation][];
  before(async () => {
    server = await startServer({ atEnd, env: { SVC_SKILL_IMPORT_SOURCES: "github:none/none" } });
    const { json } = await server.get("/openapi.json");
    ajv.addSchema(json, "reference");
    operations = Object.entries(json.paths).flatMap(([path, byMethod]) =>
      Object.entries(byMethod as object).map(([method, operation]): [string, string, Operation] => [
        `${method.toUpperCase()} ${path}`,
        path,
        operation,
      ]),
    );
  });

  /** Fails unless the value matches the schema; references are resolved in the document. */
  function assertFits(schema: object, value: unknown, where: string): void {
    const check = ajv.compile(absolute(schema));
    assert.ok(check(value), `${where}: ${ajv.errorsText(check.errors)} in ${JSON.stringify(value)}`);
  }

  test("OPS-009 every body and every answer has an example that fits its schema", () => {
    for (const [name, , { requestBody, responses }] of operations) {
      const successes = Object.entries(responses).filter(([status]) => Number(status) < 400 || name === "GET /ready");
      assert.ok(successes.length > 0, name);
      const media = [requestBody, ...successes.map(([, answer]) => answer)].flatMap((each) =>
        Object.entries(each?.content ?? {}),
      );
      for (const [type, { schema, example, ...rest }] of media) {
        if ("examples" in rest) continue;
        assert.notEqual(example, undefined, `${name} ${type}`);
        assert.notEqual(example, "", `${name} ${type}`);
        assertFits(schema, example, `${name} ${type}`);
      }
    }
  });

  test("OPS-009 every path parameter has an example, and no optional parameter has one", () => {
    for (const [name, , { parameters = [] }] of operations)
      for (const parameter of parameters)
        if (parameter.in === "path") assert.ok(String(parameter.example ?? "") !== "", `${name} ${parameter.name}`);
        else if (parameter.in === "header") assert.equal(parameter.example, undefined, `${name} ${parameter.name}`);
  });

  test("every text of a body or answer has an example in its schema", () => {
    for (const route of routes) {
      const missing = (own: object) => (path: string) =>
        assert.ok((path.split(".")[1] ?? "") in own, `${nameOf(route)}: ${path} has no example`);
      for (const schema of [route.params, route.body]) exampleOf(schema ?? nothing, missing({}));
      for (const { schema, example } of [route.reply, ...route.otherReplies])
        exampleOf(schema ?? nothing, missing(Object(example ?? {})));
    }
  });

  test("the example of a schema takes precedence, and may be null", () => {
    const name = { type: "string", default: "another", examples: ["its own"] };
    const note = { anyOf: [{ type: "string", examples: ["a note"] }, { type: "null" }], examples: [null] };

    const example = exampleOf({ type: "object", properties: { name, note }, required: ["name", "note"] });

    assert.deepEqual(example, { name: "its own", note: null });
  });

  test("an example has the required fields, and others only if they declare one", () => {
    const schema = {
      type: "object",
      required: ["name", "mode", "count", "list", "either", "defaulted"],
      properties: {
        name: { type: "string", examples: ["helper"] },
        mode: { enum: ["b", "a"] },
        count: { type: "integer", minimum: 5, maximum: 7 },
        list: { type: "array", items: { type: "boolean" } },
        either: { anyOf: [{ type: "null" }, { type: "string" }] },
        left_out: { type: "string" },
        shown: { anyOf: [{ type: "string", examples: ["yes"] }, { type: "null" }] },
        defaulted: { type: "integer", default: 3 },
      },
    };
    const seen: string[] = [];

    const example = exampleOf(schema, (path) => seen.push(path));

    assert.deepEqual(example, { name: "helper", mode: "b", count: 5, list: [true], either: null, shown: "yes" });
    assert.equal(seen.length, 0);
    exampleOf(
      { type: "object", required: ["nobody_knows"], properties: { nobody_knows: { type: "string" } } },
      (path) => seen.push(path),
    );
    assert.deepEqual(seen, [".nobody_knows"]);
  });

  test("the reference has all frames, and its examples are frames", () => {
    assert.deepEqual(Object.keys(frames).sort(), [...frameNames].sort());
    for (const [name, { schema }] of Object.entries(frames)) {
      const example = exampleOf(schema);
      const frame = only(`data: ${JSON.stringify(example)}\n\n`);

      assert.equal(frame.name, name);
      assert.equal(frameProblem(frame), null, name);
    }
  });

  test("each event stream lists its events as components, and its example uses them", () => {
    const streams = operations.flatMap(([name, , { responses }]) =>
      Object.values(responses).flatMap(({ content = {} }) => {
        const media = content["text/event-stream"];
        return media === undefined ? [] : [[name, media] as const];
      }),
    );

    assert.ok(streams.length >= 6);
    for (const [name, { schema, example }] of streams) {
      assert.equal(schema.contentMediaType, "text/event-stream", name);
      const { items } = schema.contentSchema;
      for (const { $ref } of items.anyOf ?? [items]) assert.match($ref, /^#\/components\/schemas\/\w+$/);
      const events = dataOf(example);
      assert.ok(events.length > 0, name);
      for (const event of events) assertFits(items, event, name);
    }
  });

  test("frames of streams match the reference", async () => {
    // The schemas of earlier tests may have taken longer than the idle limit of their connections.
    server.close();
    const messages = [{ role: "user", content: "What is 6 * 7?" }];
    const asked: [path: string, body: object][] = [
      ["/chat/stream", { manifest: "quick", thread_id: "said", messages }],
      ["/v1/chat/completions", { model: "quick", messages, stream: true, stream_options: { include_usage: true } }],
      ["/v1/responses", { model: "quick", input: "What is 6 * 7?", stream: true }],
    ];

    // The tests before compile schemas for longer than the idle limit: the client must see which connections are closed.
    for (let turn = 0; turn < 3; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
    // The requests come first, because compiling a schema takes longer than the idle limit of a connection.
    const texts = await Promise.all(asked.map(async ([path, body]) => [path, (await server.post(path, body)).text]));

    for (const [path = "", text = ""] of texts) {
      const operation = operations.find(([name]) => name === `POST ${path}`)?.[2];
      const { items } = operation?.responses["200"]?.content["text/event-stream"]?.schema.contentSchema ?? {};
      const events = dataOf(text);
      assert.ok(events.length > 4, path);
      for (const event of events) assertFits(items, event, path);
      // The schema is strict: an unknown type does not match.
      assert.throws(() => assertFits(items, { type: "nobody" }, path));
    }
  });

  test("OPS-009 the first try of the reference runs quick, and all body examples are accepted", async () => {
    /** Operations whose examples name an object of an earlier request, or none. */
    const works = [
      ...["POST /chat", "POST /chat/stream", "POST /chat/abort", "POST /chat/thinking", "POST /chat/style"],
      ...["POST /chat/mode", "POST /chat/tool_result", "POST /chat/ui", "POST /chat/ask", "POST /chat/sessions/name"],
      ...["POST /chat/sessions/custom", "POST /chat/sessions/lease"],
      ...[
        "POST /chat/fork",
        "POST /chat/compact",
        "POST /v1/chat/completions",
        "POST /v1/responses",
        "PUT /plans/{plan_id}",
      ],
      ...["PUT /jobs/{name}", "PUT /manifests/{name}", "POST /manifests/{name}/rollback", "POST /runs/requeue"],
      ...["POST /chat/workspace/edited", "POST /files"],
    ];
    /** Allowed answers to examples with unknown ids. */
    const refused = new Set([400, 403, 404, 409, 503]);
    const answered = new Map<string, number>();
    // The server has ended idle connections while the test before compiled schemas.
    server.close();

    for (const [name, path, { parameters = [], requestBody }] of operations) {
      const example = requestBody?.content["application/json"]?.example;
      if (example === undefined) continue;
      const method = name.split(" ")[0] ?? "";
      const target = parameters
        .filter((each) => each.in === "path")
        .reduce((text, each) => text.replace(`{${each.name}}`, encodeURIComponent(String(each.example))), path);
      const { status, text } = await server.request(method, target, { body: example });
      answered.set(name, status);

      const isRight = works.includes(name) ? status < 300 : status < 300 || refused.has(status);
      assert.ok(isRight, `${name}: ${status} ${text.slice(0, 300)}`);
      assert.doesNotMatch(text, /"(error|code)":"invalid_(request|json)"/, name);
    }

    for (const name of works) assert.ok(answered.has(name), name);
    const first = operations[0];
    assert.equal(first?.[0], "POST /chat");
    assert.equal(first?.[2].requestBody?.content["application/json"]?.example.manifest, "quick");
    const { json } = await server.get("/chat/history/tour");
    assert.ok(json.messages.length >= 2);
  });

  test("the sentence about refusals describes 401 and 403 as they are", async () => {
    const { json } = await server.get("/openapi.json");

    assert.match(json.info.description, /401 is\s+`\{"error": "unauthorized", "reason": "missing_credentials"\}`/);
    assert.match(json.info.description, /`\{"detail": "missing scopes: audit:read"\}`/);
  });
});

/** A schema whose references point into the document. */
function absolute(schema: object): object {
  return JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"reference#/'));
}

/** The JSON of each `data:` line of a stream. */
function dataOf(stream: string): unknown[] {
  return [...stream.matchAll(/^data: (.*)$/gm)].flatMap(([, data = ""]) =>
    data === "[DONE]" ? [] : [JSON.parse(data)],
  );
}

function only(text: string): Frame {
  const [frame] = new FrameReader().push(text);
  assert.ok(frame);
  return frame;
}
