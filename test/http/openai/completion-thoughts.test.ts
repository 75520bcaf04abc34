// The model's thoughts and the stop texts on POST /v1/chat/completions.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { calls, chunk, inTurn, startChat } from "../../support/chat.ts";
import type { MockModel } from "../../support/mock-model.ts";
import type { TestServer } from "../../support/server.ts";
import { FrameReader } from "../../support/sse-frames.ts";
import { cleanup } from "../../support/temp.ts";

const models = ["thinks", "mixed", "plain"];

describe("POST /v1/chat/completions", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const agents = models.map((id) => [id, { model: { id }, tools: ["calculator"] }]);
    const durable = { model: { id: "thinks" }, tools: ["calculator"], execution: { mode: "durable" } };
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(agents),
        durable,
        claude: { model: { id: "claude" } },
        spare: { model: { id: "plain", fallbacks: ["claude"] } },
      },
      routes: { claude: { provider: "anthropic", model: "claude-test" } },
      providers: { anthropic: { api_key: "a-key-of-anthropic" } },
    }));
    const call = calls(["calculator", { expression: "6*7" }]);
    mock.answer("thinks", inTurn({ reasoning: ["Let me", " see."], ...call }, { reasoning: ["So."], text: "42." }));
    const piece = (delta: object) => ({ send: chunk(delta, null) });
    mock.answer("mixed", {
      steps: [
        piece({ content: "Well. " }),
        piece({ reasoning_content: "Which one?" }),
        piece({ content: "This one." }),
        piece({ reasoning_content: "Done." }),
        { send: `${chunk({}, "stop")}data: [DONE]\n\n` },
      ],
    });
    mock.answer("plain", { text: "Ok." });
  });

  const messages = [{ role: "user", content: "hi" }];
  const ask = (model: string, fields: object = {}) =>
    server.post("/v1/chat/completions", { model, messages, ...fields });
  const deltasOf = async (model: string, fields: object = {}) => {
    const { text } = await ask(model, { stream: true, ...fields });
    const chunks = new FrameReader().push(text).filter(({ data }) => data !== "[DONE]");
    return chunks.flatMap(({ data }) => JSON.parse(data).choices.map(({ delta }: { delta: object }) => delta));
  };
  const joined = (deltas: readonly Record<string, string>[], field: string) =>
    deltas.map((delta) => delta[field] ?? "").join("");

  for (const [name, model, reasoning, content] of [
    ["of each step", "thinks", "Let me see.\n\nSo.", "42."],
    ["of each step of a durable run", "durable", "Let me see.\n\nSo.", "42."],
    ["among its words", "mixed", "Which one?\n\nDone.", "Well. This one."],
    ["that it had none", "plain", undefined, "Ok."],
  ] as const)
    test(`returns the thoughts ${name}, whole and streamed`, async () => {
      const whole = await ask(model);
      const deltas = await deltasOf(model);

      const { message } = whole.json.choices[0];
      assert.deepEqual([message.content, message.reasoning_content], [content, reasoning]);
      assert.deepEqual([joined(deltas, "content"), joined(deltas, "reasoning_content")], [content, reasoning ?? ""]);
      const both = deltas.filter((delta: object) => "content" in delta && "reasoning_content" in delta);
      assert.deepEqual(both, []);
    });

  test("the AI SDK reads the thoughts as reasoning", async () => {
    const svc = createOpenAICompatible({ name: "svc", baseURL: `${server.url}/v1`, apiKey: "any" });

    const whole = await generateText({ model: svc("thinks"), prompt: "hi" });
    const streamed = streamText({ model: svc("thinks"), prompt: "hi" });

    assert.deepEqual([whole.text, whole.reasoningText], ["42.", "Let me see.\n\nSo."]);
    assert.deepEqual([await streamed.text, await streamed.reasoningText], ["42.", "Let me see.\n\nSo."]);
  });

  for (const stop of ["\n", ["\n\n", "END"], " "])
    test(`the stop text ${JSON.stringify(stop)} goes to the model`, async () => {
      const { status } = await ask("plain", { stop });

      assert.equal(status, 200);
      assert.deepEqual(mock.requests.at(-1)?.body.stop, [stop].flat());
    });

  test("refuses a blank stop text with 400 if a model of the turn is Anthropic's", async () => {
    const calledBefore = mock.requests.length;
    for (const model of ["claude", "spare"]) {
      const { status, json } = await ask(model, { stop: ["END", "\n"] });

      assert.deepEqual([status, json.error.code, json.error.param], [400, "invalid_request", "stop"]);
      assert.match(json.error.message, /^stop: must not be blank for claude: Anthropic's models refuse/);
    }
    assert.equal(mock.requests.length, calledBefore);
    assert.equal((await ask("spare", { stop: "END" })).status, 200);
  });

  test("an empty stop text is refused", async () => {
    const { status, json } = await ask("plain", { stop: "" });

    assert.deepEqual([status, json.error.param], [400, "stop"]);
  });
});
