// The Vercel AI SDK against the server: @ai-sdk/openai-compatible on /v1/chat/completions, @ai-sdk/openai on /v1/responses.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, jsonSchema, type LanguageModel, streamText, tool } from "ai";
import { calls, shown, startChat } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({ ann: { scopes: ["*"] } });

describe("the AI SDK", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["agent"],
      manifests: { agent: { model: { id: "agent" }, tools: ["calculator"] } },
      env: keyed,
    }));
    // The manifest's own tool first, then the client's, then the answer.
    mock.answer("agent", ({ body }) => {
      const results = (body.messages as { role: string; content: string }[]).filter(({ role }) => role === "tool");
      if (results.some(({ content }) => content.includes("18"))) return { text: ["It is ", "18 degrees."] };
      if (results.some(({ content }) => content === "42")) return calls(["get_weather", { city: "Riga" }]);
      return calls(["calculator", { expression: "6*7" }]);
    });
  });

  const asked: unknown[] = [];
  const tools = {
    get_weather: tool({
      description: "The weather of a city.",
      inputSchema: jsonSchema<{ city: string }>({
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
        additionalProperties: false,
      }),
      execute(input) {
        asked.push(input);
        return { degrees: 18 };
      },
    }),
  };
  const models = (): Record<string, LanguageModel> => {
    const baseURL = `${server.url}/v1`;
    const openai = createOpenAI({ baseURL, apiKey: keys.ann });
    return {
      "openai-compatible": createOpenAICompatible({ name: "svc", baseURL, apiKey: keys.ann })("agent"),
      "openai (responses)": openai.responses("agent"),
      "openai (chat)": openai.chat("agent"),
    };
  };

  for (const name of ["openai-compatible", "openai (responses)", "openai (chat)"]) {
    test(`${name}: a tool of the client's runs between two steps, whole and streamed`, async () => {
      const model = models()[name] as LanguageModel;
      asked.length = 0;

      const whole = await generateText({ model, tools, prompt: "How is Riga?", stopWhen: isStepCount(5) });
      const streamed = streamText({ model, tools, prompt: "How is Riga?", stopWhen: isStepCount(5) });
      const text = await streamed.text;

      assert.deepEqual([whole.text, text], ["It is 18 degrees.", "It is 18 degrees."]);
      assert.deepEqual(asked, [{ city: "Riga" }, { city: "Riga" }]);
      assert.deepEqual(
        whole.steps.map(({ finishReason }) => finishReason),
        ["tool-calls", "stop"],
      );
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ role }) => role),
        ["user", "assistant", "tool"],
      );
    });
  }
});
