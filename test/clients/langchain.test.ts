// @langchain/openai against the server, on /v1/chat/completions and on /v1/responses.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { calls, shown, startChat } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({ ann: { scopes: ["*"] } });

describe("LangChain", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["agent"],
      manifests: { agent: { model: { id: "agent" }, tools: ["calculator"] } },
      env: keyed,
    }));
    mock.answer("agent", ({ body }) =>
      (body.messages as { role: string }[]).some(({ role }) => role === "tool")
        ? { text: ["It is ", "18 degrees."] }
        : calls(["get_weather", { city: "Riga" }]),
    );
  });

  const weather = {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city.",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  } as const;

  for (const useResponsesApi of [false, true]) {
    test(`a tool's result is returned ${useResponsesApi ? "as items of a response" : "as a tool message"}`, async () => {
      const model = new ChatOpenAI({
        model: "agent",
        apiKey: keys.ann,
        useResponsesApi,
        maxRetries: 0,
        configuration: { baseURL: `${server.url}/v1` },
      }).bindTools([weather]);
      const history: BaseMessage[] = [new HumanMessage("How is Riga?")];

      const first: AIMessage = await model.invoke(history);
      const [call] = first.tool_calls ?? [];
      history.push(first, new ToolMessage({ tool_call_id: call?.id ?? "", content: "18" }));
      const second = await model.invoke(history);
      let streamed = "";
      for await (const chunk of await model.stream(history)) streamed += chunk.text;

      assert.deepEqual([call?.name, call?.args], ["get_weather", { city: "Riga" }]);
      assert.deepEqual([second.text, streamed], ["It is 18 degrees.", "It is 18 degrees."]);
      assert.deepEqual(
        shown(mock.requests.at(-1)).map(({ role, content }) => [role, content]),
        [
          ["user", "How is Riga?"],
          ["assistant", ""],
          ["tool", "18"],
        ],
      );
    });
  }
});
