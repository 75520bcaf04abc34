// response_format, text.format and stop of the OpenAI protocol, with the official client.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { APIError, BadRequestError } from "openai";
import { chunk, startChat } from "../../support/chat.ts";
import type { MockModel } from "../../support/mock-model.ts";
import type { TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const models = ["good", "bad", "mended", "plain", "refuses"];
const schema = {
  type: "object",
  properties: { answer: { type: "integer" } },
  required: ["answer"],
  additionalProperties: false,
};
const format = { type: "json_schema", json_schema: { name: "reply", schema, strict: true } } as const;

describe("the form of an answer", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(models.map((id) => [id, { model: { id } }])),
        owned: {
          model: { id: "plain" },
          output_schema: { type: "object", properties: { own: { type: "boolean" } }, required: ["own"] },
        },
      },
    }));
    mock.answer("good", { text: '{"answer": 42}' });
    mock.answer("bad", { text: "It is 42." });
    mock.answer("mended", { text: '{"answer": "42"}' }, { text: '{"answer": 42}' });
    mock.answer("plain", { text: '{"own": true}' });
    mock.answer("refuses", {
      steps: [{ send: `${chunk({ refusal: "I will not." }, null)}${chunk({}, "stop")}data: [DONE]\n\n` }],
    });
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  });

  const ask = (model: string, fields: object) =>
    client.chat.completions.create({
      model,
      messages: [{ role: "user", content: "go" }],
      ...fields,
    }) as Promise<OpenAI.Chat.Completions.ChatCompletion>;
  const last = () => mock.requests.at(-1)?.body as Record<string, unknown>;
  const said = ({ choices }: OpenAI.Chat.Completions.ChatCompletion) => choices[0]?.message.content;

  test("a schema is sent to the provider, and only an answer that fits is shown", async () => {
    const good = await ask("good", { response_format: format });
    const told = last().response_format as { json_schema: { schema: object; strict: boolean } };
    const mended = await ask("mended", { response_format: format });
    const chunks = await Array.fromAsync(
      await client.chat.completions.create({
        model: "good",
        messages: [{ role: "user", content: "go" }],
        response_format: format,
        stream: true,
      }),
    );
    const bad = await ask("bad", { response_format: format }).catch((error: unknown) => error);

    assert.deepEqual([said(good), said(mended)], ['{"answer": 42}', '{"answer": 42}']);
    assert.deepEqual([told.json_schema.schema, told.json_schema.strict], [schema, true]);
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), '{"answer": 42}');
    assert.ok(bad instanceof APIError && bad.status === 502, String(bad));
  });

  test("a refusing model is not retried, and its text is marked as a refusal", async () => {
    const asked = mock.requests.length;
    const { choices } = await ask("refuses", { response_format: format });

    assert.deepEqual([choices[0]?.message.content, choices[0]?.finish_reason], ["I will not.", "content_filter"]);
    assert.equal(mock.requests.length, asked + 1);
  });

  test("json_object is any object, and the manifest's own schema takes precedence", async () => {
    const good = await ask("good", { response_format: { type: "json_object" } });
    const own = await ask("owned", { response_format: format });

    assert.equal(said(good), '{"answer": 42}');
    assert.equal(said(own), '{"own": true}');
    const told = last().response_format as { json_schema: { schema: { required: string[] } } };
    assert.deepEqual(told.json_schema.schema.required, ["own"]);
    assert.equal((await ask("bad", { response_format: { type: "text" } })).choices[0]?.message.content, "It is 42.");
  });

  test("a response shows its format and repeats the request's parameters", async () => {
    const text = { format: { type: "json_schema", name: "reply", schema, strict: true } } as const;
    const response = await client.responses.create({ model: "good", input: "go", text });

    assert.equal(response.output_text, '{"answer": 42}');
    assert.deepEqual(response.text, text);
    assert.deepEqual((await client.responses.retrieve(response.id)).text, text);
    const recursive = { ...text.format, schema: { type: "object", properties: { a: { $ref: "#" } } } };
    await assert.rejects(
      client.responses.create({ model: "good", input: "go", text: { format: recursive } }),
      (error) => error instanceof BadRequestError && error.param === "text.format.schema.properties.a.$ref",
    );
  });

  test("stop is sent to the model", async () => {
    await ask("good", { stop: ["END", "###"] });
    const several = last().stop;
    await ask("good", { stop: "END" });

    assert.deepEqual([several, last().stop], [["END", "###"], ["END"]]);
    await ask("good", { stop: null });
    assert.ok(!("stop" in last()));
  });

  test("an unsupported constraint is 400 with its name, before any model call", async () => {
    const asked = mock.requests.length;
    const withSchema = (given: unknown, more: object = {}) => ({
      response_format: { type: "json_schema", json_schema: { name: "reply", schema: given, ...more } },
    });
    const at = "response_format.json_schema";
    for (const [fields, param] of [
      [
        withSchema({ type: "object", properties: { a: { type: "string", pattern: "(a+)+$" } } }),
        `${at}.schema.properties.a.pattern`,
      ],
      [withSchema({ type: "object", properties: { a: { $ref: "#" } } }), `${at}.schema.properties.a.$ref`],
      [withSchema({ type: "object", description: "x".repeat(20_000) }), `${at}.schema`],
      [withSchema({ type: "array" }), `${at}.schema`],
      [withSchema("object"), `${at}.schema`],
      [withSchema(schema, { name: "a b" }), `${at}.name`],
      [withSchema(schema, { strict: "yes" }), `${at}.strict`],
      [{ response_format: { type: "json_schema" } }, at],
      [{ response_format: { type: "grammar" } }, "response_format"],
      [{ response_format: "json" }, "response_format"],
      [{ stop: ["a", "b", "c", "d", "e"] }, "stop"],
      [{ stop: [""] }, "stop"],
      [{ stop: 7 }, "stop"],
    ] as [object, string][]) {
      const error = await ask("good", fields).catch((reason: unknown) => reason);

      assert.ok(error instanceof BadRequestError, `${param}: ${String(error)}`);
      assert.equal(error.param, param);
    }
    assert.equal(mock.requests.length, asked);
  });
});
