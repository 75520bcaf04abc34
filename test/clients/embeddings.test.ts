// The usual clients for vectors: the openai package, which asks for base64 by default, and the AI SDK, which asks for
// floats.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { OpenAIEmbeddings } from "@langchain/openai";
import { embed, embedMany } from "ai";
import OpenAI, { APIConnectionError, NotFoundError } from "openai";
import { systemEnv } from "../../bus/env.ts";
import { Outgoing } from "../../governance/egress/outgoing.ts";
import { fetchWith } from "../../governance/egress/sdk-fetch.ts";
import { startChat } from "../support/chat.ts";
import { vectorOf } from "../support/mock-model/embeddings.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ ann: { scopes: ["*"] } });
const texts = Array.from({ length: 200 }, (_, at) => `text ${at} of many`);

describe("clients of /v1/embeddings", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let client: OpenAI;
  before(async () => {
    const { mock, ...made } = await startChat(atEnd, {
      models: ["agent"],
      routes: { vectors: { provider: "openai", model: "wire-vectors", kind: "embedding" } },
      env,
    });
    ({ server } = made);
    mock.answer("agent", { text: ["Hello", " there."] });
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann, maxRetries: 0 });
  });

  const sameVectors = (found: readonly (readonly number[])[], inputs: readonly string[], dimensions?: number) =>
    assert.deepEqual(
      found,
      inputs.map((text) => [...vectorOf(text, dimensions)]),
    );

  test("openai: vectors of one text and of many, by default and in each format", async () => {
    const { data, usage, model, object } = await client.embeddings.create({ model: "vectors", input: "a red boat" });
    const many = await client.embeddings.create({ model: "vectors", input: texts, encoding_format: "float" });
    const short = await client.embeddings.create({ model: "vectors", input: texts.slice(0, 2), dimensions: 8 });
    const raw = await client.embeddings.create({ model: "vectors", input: "a", encoding_format: "base64" });

    sameVectors([data[0]?.embedding ?? []], ["a red boat"]);
    assert.deepEqual(
      { usage, model, object },
      {
        usage: { prompt_tokens: 3, total_tokens: 3 },
        model: "vectors",
        object: "list",
      },
    );
    sameVectors(
      many.data.map(({ embedding }) => embedding),
      texts,
    );
    assert.deepEqual(
      many.data.map(({ index }) => index),
      texts.map((_, at) => at),
    );
    sameVectors(
      short.data.map(({ embedding }) => embedding),
      texts.slice(0, 2),
      8,
    );
    assert.equal(Buffer.from(raw.data[0]?.embedding ?? "", "base64").length, 4 * 64);
  });

  test("openai: tokens instead of texts, one list and several", async () => {
    const one = await client.embeddings.create({ model: "vectors", input: [1, 2, 3] });
    const two = await client.embeddings.create({ model: "vectors", input: [[1, 2, 3], [4]] });

    assert.deepEqual(
      one.data.map(({ embedding }) => embedding),
      [[...vectorOf([1, 2, 3])]],
    );
    assert.deepEqual(
      two.data.map(({ embedding }) => embedding),
      [[...vectorOf([1, 2, 3])], [...vectorOf([4])]],
    );
  });

  test("openai: a refusal is an error of the client's own kinds", async () => {
    const unknown = await client.embeddings.create({ model: "agent", input: "a" }).catch((error: unknown) => error);

    assert.ok(unknown instanceof NotFoundError);
    assert.deepEqual(
      [unknown.status, unknown.type, unknown.code],
      [404, "invalid_request_error", "unknown_embedding_model:agent"],
    );
  });

  test("openai: the guarded fetch carries vectors, models and streams", async () => {
    const outgoing = new Outgoing({
      settings: {
        egressCredentials: {},
        egressPrivate: [{ host: "127.0.0.1", cidr: null, port: Number(new URL(server.url).port), tenants: ["acme"] }],
        egressProxy: "",
        egressCaFile: null,
        testResolve: {},
      },
      secrets: { resolve: async (text) => text },
      env: systemEnv(),
    });
    atEnd.after(() => outgoing.close());
    const guarded = (tenantId: string) => {
      const rules = { tenantId, policy: "public", allowHosts: [], credentials: [], onEvent: () => {} } as const;
      const fetch = fetchWith(outgoing, rules);
      return new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann, maxRetries: 0, fetch });
    };
    const own = guarded("acme");

    const { data } = await own.embeddings.create({ model: "vectors", input: texts });
    const listed: string[] = [];
    for await (const { id } of own.models.list()) listed.push(id);
    const plain: string[] = [];
    for await (const { id } of client.models.list()) plain.push(id);
    const messages = [{ role: "user" as const, content: "hi" }];
    const stream = await own.chat.completions.create({ model: "agent", messages, stream: true });
    let said = "";
    for await (const { choices } of stream) said += choices[0]?.delta.content ?? "";

    sameVectors(
      data.map(({ embedding }) => embedding),
      texts,
    );
    assert.deepEqual(listed, plain);
    assert.ok(listed.includes("agent"), listed.join());
    assert.equal(said, "Hello there.");
    await assert.rejects(own.embeddings.create({ model: "no-such", input: "x" }), NotFoundError);
    await assert.rejects(guarded("globex").models.list(), APIConnectionError);
  });

  test("the AI SDK: one value and many", async () => {
    const baseURL = `${server.url}/v1`;
    const models = [
      createOpenAI({ baseURL, apiKey: keys.ann }).embedding("vectors"),
      createOpenAICompatible({ name: "svc", baseURL, apiKey: keys.ann }).embeddingModel("vectors"),
    ];
    for (const model of models) {
      const one = await embed({ model, value: "a red boat", maxRetries: 0 });
      const many = await embedMany({ model, values: texts, maxRetries: 0 });

      sameVectors([one.embedding], ["a red boat"]);
      assert.equal(one.usage.tokens, 3);
      sameVectors(many.embeddings, texts);
    }
  });

  test("LangChain: documents and a query", async () => {
    const embeddings = new OpenAIEmbeddings({
      model: "vectors",
      apiKey: keys.ann,
      maxRetries: 0,
      configuration: { baseURL: `${server.url}/v1` },
    });

    sameVectors(await embeddings.embedDocuments(texts), texts);
    sameVectors([await embeddings.embedQuery("a red boat")], ["a red boat"]);
  });
});
