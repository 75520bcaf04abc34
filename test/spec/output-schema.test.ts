// spec.output_schema (shapes 8.15): providers receive the schema, and the answer that a client reads conforms to it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { compileProblems, compileSpec } from "../manifests/support.ts";
import { calls, inTurn, startChat, turn, wordsOf } from "../support/chat.ts";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../support/mock-anthropic.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { failure, type Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const city = {
  type: "object",
  properties: { name: { type: "string" }, people: { type: "integer", minimum: 1 } },
  required: ["name", "people"],
  additionalProperties: false,
};
const bern = '{"name":"Bern","people":134000}';
const refused = (message: string): Reply => jsonScript(400, { error: { message, type: "invalid_request_error" } });

const isAnswer = ({ role, tool_calls }: { role: string; tool_calls?: unknown }) => role === "assistant" && !tool_calls;

describe("an answer with a schema", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "usage:read"] },
    two: { tenant_id: "two", scopes: ["chat:write", "chat:read"] },
  });
  const models = ["good", "tools", "fenced", "wrong", "twice", "cut", "no-strict", "no-schema", "loose"];
  let server: TestServer;
  let mock: MockModel;
  let claude: MockAnthropic;
  before(async () => {
    claude = await startMockAnthropic();
    atEnd.after(() => claude.close());
    const asks = (id: string, more: object = {}) => ({ model: { id }, output_schema: city, ...more });
    ({ server, mock } = await startChat(atEnd, {
      models,
      routes: {
        "claude-a": {
          provider: "anthropic",
          model: "claude-a",
          price: { input: 1, output: 1, cache_read: 1, cache_write: 1 },
        },
      },
      providers: { anthropic: { base_url: claude.url, api_key: mockAnthropicKey } },
      manifests: {
        ...Object.fromEntries(models.map((id) => [id, asks(id)])),
        tools: asks("tools", { tools: ["calculator"] }),
        loose: { model: { id: "loose" }, output_schema: { type: "object" } },
        claude: asks("claude-a"),
      },
      env,
    }));
  });
  const as = (key: keyof typeof keys = "one") => ({ key: keys[key] });
  const chat = (manifest: string, fields: object = {}) => server.post("/chat", turn(manifest, "Bern?", fields), as());
  const streamed = async (manifest: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, "Bern?", fields), as())).rest();
  const bodies = (model: string) => mock.requests.filter((request) => request.model === model).map(({ body }) => body);

  test("an OpenAI-style provider gets response_format, strict if objects are closed", async () => {
    mock.answer("good", { text: [bern] });
    mock.answer("loose", { text: ["{}"] });

    const answer = await chat("good");
    await chat("loose");

    assert.equal(answer.json.final.content, bern);
    const [{ response_format } = {}] = bodies("good");
    assert.deepEqual(response_format, {
      type: "json_schema",
      json_schema: { name: "answer", schema: city, strict: true },
    });
    const [loose] = bodies("loose") as { response_format: { json_schema: { strict: boolean } } }[];
    assert.equal(loose?.response_format.json_schema.strict, false);
  });

  test("an Anthropic model gets it as output_config.format", async () => {
    claude.answer("claude-a", { parts: [{ text: [bern] }] });

    const answer = await chat("claude");

    assert.equal(answer.json.final.content, bern);
    const body = claude.requests.findLast(({ model }) => model === "claude-a")?.body;
    assert.deepEqual(body?.output_config, { format: { type: "json_schema", schema: city } });
  });

  test("a provider that refuses the schema gets it as text, in later requests at once", async () => {
    const strictOnly: Reply[] = [refused("Invalid schema for response_format 'answer'"), { text: [bern] }];
    mock.answer("no-strict", ...strictOnly);
    mock.answer("no-schema", refused("response_format is not supported"), refused("response_format is not supported"), {
      text: [bern],
    });

    const loose = await chat("no-strict");
    const words = await chat("no-schema");
    const again = await chat("no-schema");

    assert.equal(loose.json.final.content, bern);
    assert.equal(
      (bodies("no-strict")[1] as { response_format: { json_schema: { strict: boolean } } }).response_format.json_schema
        .strict,
      false,
    );
    assert.equal(words.json.final.content, bern);
    assert.equal(again.json.final.content, bern);
    const told = bodies("no-schema").slice(2) as {
      response_format?: unknown;
      messages: { role: string; content: string }[];
    }[];
    assert.equal(told.length, 2);
    for (const { response_format, messages } of told) {
      assert.equal(response_format, undefined);
      assert.ok(messages.at(-1)?.content.includes(JSON.stringify(city)));
    }
  });

  test("the answer is shown once it is valid, and words beside calls at once", async () => {
    mock.answer(
      "tools",
      inTurn(
        { ...calls(["calculator", { expression: "6*7" }]), text: ["Let me see."] },
        { text: ["```json\n", bern, "\n```"] },
      ),
    );

    const frames = await streamed("tools", { thread_id: "tools" });

    assert.equal(wordsOf(frames), `Let me see.${bern}`);
    const done = frames.findLast(({ name }) => name === "done");
    assert.equal(done?.json.data.final.content, bern);
    const { json } = await server.get("/chat/sessions/tools", as());
    assert.equal(json.transcript.findLast(isAnswer).content, bern);
  });

  test("an invalid answer is hidden and requested once more with its errors", async () => {
    mock.answer("wrong", { text: ['{"name":"Bern","people":0}'] }, { text: [bern] });

    const frames = await streamed("wrong", { thread_id: "wrong" });

    assert.equal(wordsOf(frames), bern);
    const messages = (bodies("wrong")[1] as { messages: { role: string; content: string }[] }).messages;
    assert.match(messages.at(-1)?.content ?? "", /people must be >= 1/);
    const { json } = await server.get("/chat/sessions/wrong", as());
    assert.deepEqual(
      json.transcript.filter(isAnswer).map(({ content }: { content: string }) => content),
      [bern],
    );
  });

  test("a second invalid answer is a failure of the model, and both calls are recorded", async () => {
    mock.answer("twice", { text: ["Bern is lovely."] });

    const answer = await chat("twice", { thread_id: "twice" });
    const frames = await streamed("twice");

    assert.equal(answer.status, 502);
    assert.equal(answer.json.error, "model_provider_error");
    assert.equal(wordsOf(frames), "");
    const failed = frames.find(({ name }) => name === "on_error");
    assert.match(failed?.json.data.message, /does not fit the output_schema: the JSON/);
    assert.equal(bodies("twice").length, 4);
    const { json } = await server.get("/usage?thread_id=twice", as());
    assert.equal(json.items.length, 2);
    mock.answer("twice", { text: [bern] });
    assert.equal((await chat("twice", { thread_id: "twice" })).json.final.content, bern);
  });

  test("an answer that was cut off or refused says so by its stop_reason", async () => {
    mock.answer("cut", { text: ['{"name":"Be'], finishReason: "length" });

    const answer = await chat("cut");

    assert.equal(answer.json.stop_reason, "max_tokens");
    assert.equal(answer.json.final.content, '{"name":"Be');
    assert.equal(bodies("cut").length, 1);
  });

  test("a provider's failure is not reported as an invalid answer", async () => {
    mock.answer("cut", failure(500));

    const answer = await chat("cut");

    assert.equal(answer.status, 502);
  });
});

test("a schema is bounded, and refused if answers cannot be validated against it", () => {
  const at = (schema: object) => compileProblems({ output_schema: schema });
  const deep = (levels: number): object =>
    levels === 0 ? { type: "string" } : { type: "object", properties: { a: deep(levels - 1), b: deep(levels - 1) } };
  const doubling = {
    type: "object",
    properties: { a: { $ref: "#/$defs/d12" } },
    $defs: {
      d0: { type: "string" },
      ...Object.fromEntries(
        Array.from({ length: 12 }, (_, n) => [
          `d${n + 1}`,
          { anyOf: [{ $ref: `#/$defs/d${n}` }, { $ref: `#/$defs/d${n}` }] },
        ]),
      ),
    },
  };

  assert.deepEqual(at(city), []);
  assert.deepEqual(at({ type: "object", properties: { a: { $ref: "#/$defs/x" } }, $defs: { x: { enum: [1] } } }), []);
  assert.deepEqual(at({ type: "array" }), ["unsupported spec.output_schema"]);
  for (const [broken, path] of [
    [{ type: "nothing" }, "type"],
    [{ required: ["a", "a"] }, "required"],
    [{ multipleOf: 0 }, "multipleOf"],
    [{ minLength: -1 }, "minLength"],
    [{ title: 7 }, "title"],
    [{ enum: [] }, "enum"],
    [{ anyOf: [] }, "anyOf"],
    [{ properties: [] }, "properties"],
    [{ not: {} }, "not"],
  ] as const)
    assert.deepEqual(at({ type: "object", properties: { a: broken } }), [
      `unsupported spec.output_schema.properties.a.${path}`,
    ]);
  assert.deepEqual(at({ type: "object", properties: { a: { pattern: "(a+)+$" } } }), [
    "unsupported spec.output_schema.properties.a.pattern",
  ]);
  assert.deepEqual(
    at({ type: "object", properties: { a: { $ref: "#/$defs/x" } }, $defs: { x: { items: { $ref: "#/$defs/x" } } } }),
    ["unsupported spec.output_schema.properties.a.items.$ref"],
  );
  assert.deepEqual(at({ type: "object", properties: { a: { $ref: "https://x.example/y" } } }), [
    "unsupported spec.output_schema.properties.a.$ref",
  ]);
  assert.deepEqual(at(deep(11)), ["unsupported spec.output_schema"]);
  assert.deepEqual(at(doubling), ["unsupported spec.output_schema"]);
  const listed = (members: number) => ({
    type: "object",
    properties: { a: { $ref: "#/$defs/x" }, b: { $ref: "#/$defs/x" } },
    $defs: { x: { enum: Array.from({ length: members }, (_, at) => at) } },
  });
  assert.deepEqual(at(listed(990)), []);
  assert.deepEqual(at(listed(1_000)), ["unsupported spec.output_schema"]);
  assert.deepEqual(at({ type: "object", description: "x".repeat(70_000) }), ["unsupported spec.output_schema"]);
  assert.equal(compileSpec({ output_schema: city }).outputSchema?.isStrict, true);
  const within = (part: object) => ({ ...city, properties: { ...city.properties, name: part } });
  assert.equal(compileSpec({ output_schema: within({ anyOf: [{ type: "object" }] }) }).outputSchema?.isStrict, false);
  assert.equal(
    compileSpec({ output_schema: { ...within({ $ref: "#/$defs/x" }), $defs: { x: { properties: {} } } } }).outputSchema
      ?.isStrict,
    false,
  );
  assert.equal(compileSpec({ output_schema: { type: "object" } }).outputSchema?.isStrict, false);
});
