// Clients at their defaults, which retry a failed request: a tool that may not run twice runs once.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ChatOpenAI } from "@langchain/openai";
import { generateText } from "ai";
import OpenAI, { APIError } from "openai";
import { calls, startChat } from "../support/chat.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["openai", "openai-responses", "limited", "ai", "ai-keyed", "ai-responses", "langchain"];

describe("clients that retry a failed request", { concurrency: true }, () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let baseURL: string;
  before(async () => {
    const acts = { tools: ["calculator"], tool_effects: { calculator: "once" } };
    const manifests = Object.fromEntries(models.map((id) => [id, { ...acts, model: { id } }]));
    ({ server, mock } = await startChat(atEnd, { models, manifests }));
    baseURL = `${server.url}/v1`;
  });

  const call = calls(["calculator", { expression: "6*7" }]);
  const done = { text: "It is 42." };
  const asked = (model: string): number => mock.requests.filter((request) => request.model === model).length;
  const messages = [{ role: "user" as const, content: "What is 6 * 7?" }];
  /** The number of user messages and of tool runs in the log. */
  const logged = async (thread: string) => {
    const { json } = await server.get(`/chat/sessions/${thread}`);
    const of = (role: string) => json.transcript.filter((event: { role: string }) => event.role === role).length;
    return { user: of("user"), tool: of("tool") };
  };
  const rejected = (asking: PromiseLike<unknown>): Promise<unknown> =>
    Promise.resolve(asking).then(
      () => assert.fail("was answered"),
      (reason: unknown) => reason,
    );

  test("openai: a turn that has acted is not retried", async () => {
    for (const model of ["openai", "openai-responses"]) mock.answer(model, call, failure(400));
    const client = new OpenAI({ baseURL, apiKey: "any" });

    const errors = await Promise.all([
      rejected(client.chat.completions.create({ model: "openai", messages })),
      rejected(client.responses.create({ model: "openai-responses", input: "What is 6 * 7?" })),
    ]);

    for (const error of errors) {
      assert.ok(error instanceof APIError);
      assert.deepEqual([error.status, error.code], [502, "model_unavailable"]);
    }
    assert.deepEqual([asked("openai"), asked("openai-responses")], [2, 2]);
  });

  test("openai: a rate limit before any call is retried", async () => {
    // The server itself has tried three times by then.
    mock.answer("limited", failure(429), failure(429), failure(429), done);
    const client = new OpenAI({ baseURL, apiKey: "any" });

    const { choices } = await client.chat.completions.create({ model: "limited", messages });

    assert.deepEqual([choices[0]?.message.content, asked("limited")], ["It is 42.", 4]);
  });

  test("the AI SDK: a turn on a thread continues after its tool's result", async () => {
    mock.answer("ai", call, failure(400), failure(400), done);
    const svc = createOpenAICompatible({ name: "svc", baseURL, apiKey: "any" });

    const { text } = await generateText({
      model: svc("ai"),
      prompt: "What is 6 * 7?",
      headers: { "x-svc-thread-id": "ai" },
    });

    assert.deepEqual([text, asked("ai"), await logged("ai")], ["It is 42.", 4, { user: 1, tool: 1 }]);
  });

  test("the AI SDK: a turn with an Idempotency-Key runs once, whatever its outcome", async () => {
    mock.answer("ai-keyed", call, failure(400), call, done);
    const svc = createOpenAICompatible({ name: "svc", baseURL, apiKey: "any" });

    const error = await rejected(
      generateText({ model: svc("ai-keyed"), prompt: "What is 6 * 7?", headers: { "idempotency-key": "once" } }),
    );

    assert.match(String(error), /Failed after 3 attempts/);
    assert.equal(asked("ai-keyed"), 2);
  });

  test("the AI SDK: a response continues after the tool's result of the one before", async () => {
    mock.answer("ai-responses", { text: "Hello." }, call, failure(400), done);
    const openai = createOpenAI({ baseURL, apiKey: "any" });
    const ask = (prompt: string, previousResponseId?: string) =>
      generateText({
        model: openai.responses("ai-responses"),
        prompt,
        ...(previousResponseId !== undefined && { providerOptions: { openai: { previousResponseId } } }),
      });

    const first = await ask("hi");
    const id = String(first.finalStep.providerMetadata?.openai?.responseId);
    const second = await ask("What is 6 * 7?", id);

    const thread = `resp-${id.slice("resp_".length, "resp_".length + 32)}`;
    assert.deepEqual([second.text, asked("ai-responses")], ["It is 42.", 4]);
    assert.deepEqual(await logged(thread), { user: 2, tool: 1 });
  });

  test("LangChain: a turn on a thread continues after its tool's result", async () => {
    mock.answer("langchain", call, failure(400), done);
    const model = new ChatOpenAI({ model: "langchain", apiKey: "any", user: "langchain", configuration: { baseURL } });

    const { text } = await model.invoke("What is 6 * 7?");

    assert.deepEqual([text, asked("langchain")], ["It is 42.", 3]);
    assert.deepEqual(await logged("langchain"), { user: 1, tool: 1 });
  });
});
