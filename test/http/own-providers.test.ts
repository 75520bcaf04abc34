// SVC_MODEL_PROVIDERS over real sockets: the operator's model servers answer turns with tools and get the configured
// requests, and the setting's secrets never leak.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { shown, turn } from "../support/chat.ts";
import { localModels } from "../support/local-models.ts";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../support/mock-anthropic.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { manifestEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const headers = { "X-Gateway-Key": "gateway-key-0123456789", "X-Team": "secret:TEAM", "User-Agent": "our-agents" };

describe("model providers of one's own", () => {
  const atEnd = cleanup();
  let mock: MockModel;
  let anthropic: MockAnthropic;
  let server: ProcessServer;
  before(async () => {
    mock = await startMockModel();
    anthropic = await startMockAnthropic();
    atEnd.after(() => mock.close());
    atEnd.after(() => anthropic.close());
    const local = Object.keys(localModels);
    for (const [name, behaviour] of Object.entries(localModels)) mock.answer(name, behaviour);
    mock.answer("broken", failure(401));
    anthropic.answer("claude-here", { parts: [{ text: "Hello from here." }] });
    const plain = Object.fromEntries(local.map((name) => [name, { base_url: mock.url }]));
    const models = [...local, "broken"];
    server = await startServerProcess({
      atEnd,
      env: {
        SVC_MODEL_PROVIDERS: JSON.stringify({
          ...plain,
          vllm: { base_url: `${mock.url}/`, api_key: "vllm-key-0123456789", headers },
          broken: { base_url: mock.url, api_key: "secret:BROKEN" },
          here: { base_url: anthropic.url, api_key: mockAnthropicKey, kind: "anthropic", timeout: 30 },
        }),
        SVC_MODEL_ROUTES: JSON.stringify({
          ...Object.fromEntries(models.map((name) => [name, { provider: name, model: name }])),
          "claude-here": { provider: "here", model: "claude-here" },
          vectors: { provider: "ollama", model: "mock-embed", kind: "embedding" },
        }),
        SVC_SECRET_TEAM: "team-word-0123456789",
        SVC_SECRET_BROKEN: "broken-key-0123456789",
        ...manifestEnv(
          atEnd,
          Object.fromEntries(
            [...models, "claude-here"].map((name) => [name, { model: { id: name }, tools: ["calculator"] }]),
          ),
        ),
      },
    });
  });

  for (const name of Object.keys(localModels)) {
    test(`${name} is called with tools, and its answer is that of the turn`, async () => {
      const before = mock.requests.length;

      const answer = await server.post("/chat", turn(name, "What is 6 * 7?"));

      assert.equal(answer.status, 200, answer.text);
      const { final, usage, messages } = answer.json as { final: object; usage: object; messages: { role: string }[] };
      assert.deepEqual(final, { role: "assistant", content: "It is 42." });
      assert.deepEqual({ ...usage, input: 62, output: 18 }, usage);
      assert.deepEqual(
        messages.map(({ role }) => role),
        ["user", "assistant", "tool", "assistant"],
      );
      const [first, second] = mock.requests.slice(before);
      assert.equal(first?.path, "/v1/chat/completions");
      assert.deepEqual(first?.body.stream_options, { include_usage: true });
      const told = shown(second).at(-1);
      assert.deepEqual([told?.role, told?.content], ["tool", "42"]);
    });
  }

  test("a provider gets its key and its headers, one without them gets neither", async () => {
    const before = mock.requests.length;

    await server.post("/chat", turn("vllm", "What is 6 * 7?"));
    await server.post("/chat", turn("ollama", "What is 6 * 7?"));

    const sent = mock.requests.slice(before).map((request) => request.headers);
    assert.equal(sent[0]?.authorization, "Bearer vllm-key-0123456789");
    assert.equal(sent[0]?.["x-gateway-key"], headers["X-Gateway-Key"]);
    assert.equal(sent[0]?.["x-team"], "team-word-0123456789", "what is secret:NAME is looked up");
    assert.equal(sent[0]?.["user-agent"], "our-agents", "and ours is not beside it");
    assert.deepEqual(
      [sent[2]?.authorization, sent[2]?.["x-team"], sent[2]?.["user-agent"]],
      [undefined, undefined, "svc"],
    );
  });

  test("kind anthropic speaks the Messages API", async () => {
    const answer = await server.post("/chat", turn("claude-here", "Hi"));

    assert.deepEqual((answer.json as { final: { content: string } }).final.content, "Hello from here.");
    assert.equal(anthropic.requests.at(-1)?.headers["x-api-key"], mockAnthropicKey);
  });

  test("a provider of kind openai makes vectors", async () => {
    const answer = await server.post("/v1/embeddings", { model: "vectors", input: "a text" });

    assert.equal(answer.status, 200, answer.text);
    assert.equal(mock.requests.at(-1)?.path, "/v1/embeddings");
  });

  test("the first route to such a provider is the default model", async () => {
    assert.ok(server.logs.some((line) => JSON.stringify(line).includes("ollama (ollama, of SVC_MODEL_PROVIDERS)")));
  });

  test("a provider that repeats its request leaks nothing of it", async () => {
    const message = "no such key: broken-key-0123456789 of team-word-0123456789";
    mock.answer("broken", jsonScript(401, { error: { message } }));

    const answer = await server.post("/chat", turn("broken", "Hi"));

    assert.equal(answer.status, 502);
    const all = JSON.stringify(server.logs) + answer.text;
    for (const secret of [
      "broken-key-0123456789",
      "team-word-0123456789",
      "gateway-key-0123456789",
      "vllm-key-0123456789",
    ])
      assert.ok(!all.includes(secret), secret);
  });
});
