import assert from "node:assert/strict";
import { calls, chunk } from "../../../support/chat.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";

export const openAiCases: readonly FamilyCase[] = [
  {
    title: "a call and its result go back and are taken",
    async run({ model, chat }) {
      model.says(calls(["calculator", { expression: "6*7" }]), { text: "It is 42." });

      const { final } = await chat("What is 6 * 7?");

      assert.deepEqual(final, { role: "assistant", content: "It is 42." });
    },
  },
  {
    title: "an answer that fails before its first word is asked for again",
    async run({ model, chat }) {
      const script = { steps: [{ send: `${chunk({ role: "assistant", content: "" }, "error")}data: [DONE]\n\n` }] };
      model.says(script, { steps: [{ send: "data: [DONE]\n\n" }] }, { text: "Hello." });

      const { final } = await chat("Hello");

      assert.deepEqual([final?.content, model.requests.length], ["Hello.", 3]);
    },
  },
  {
    title: "an answer that fails behind its first word is a failure on every surface",
    async run({ model, server }) {
      model.says({ steps: [{ send: chunk({ content: "Hel" }, null) + chunk({}, "error") }] });
      const messages = [{ role: "user", content: "Hello" }];
      const words = 'the provider ended the answer with "error"';

      const whole = await server.post("/chat", { manifest: "gpt", messages });
      const opened = await server.stream("/chat/stream", { manifest: "gpt", messages });
      const failure = (await opened.rest()).find(({ name }) => name === "on_error")?.json.data.message;
      const openAi = await server.post("/v1/chat/completions", { model: "gpt", messages });

      assert.deepEqual([whole.status, openAi.status, model.requests.length], [502, 502, 3]);
      assert.equal(failure, `model provider failed: ${words}`);
      assert.match(whole.json.message, /ended the answer with/);
      assert.match(openAi.json.error.message, /ended the answer with/);
    },
  },
  {
    title: "an answer that is malformed is not asked for again and goes to the fallback",
    async run({ model, other, chat }) {
      model.says({ steps: [{ send: "data: {broken\n\n" }] });
      other("gemini").says({ text: "Hello." });

      const { final } = await chat("Hello", { manifest: "gpt-or-gemini" });

      assert.deepEqual([final?.content, model.requests.length], ["Hello.", 1]);
    },
  },
  {
    title: "a call that is cut off by length ends the turn and does not run",
    async run({ model, chat, complete }) {
      const cut = { ...calls(["calculator", '{"expression": "6*']), text: "Well: ", finishReason: "length" };
      model.says(cut, { text: "It is 42." });

      const first = await chat("What is 6 * 7?");
      const asked = model.requests.length;
      const second = await chat("Again?");
      model.says(cut);
      const openAi = await complete({ messages: [{ role: "user", content: "Again?" }] });

      assert.deepEqual([first.final?.content, first.stop_reason, asked], ["Well: ", "max_tokens", 1]);
      assert.deepEqual([second.final?.content, second.stop_reason], ["It is 42.", "end_turn"]);
      assert.deepEqual([openAi.content, openAi.tool_calls], ["Well: ", undefined]);
    },
  },
  {
    title: "a call that is cut off by length is not handed to the client whose tool it is of",
    async run({ model, complete }) {
      const tools = [{ type: "function", function: { name: "paint", parameters: { type: "object" } } }];
      const messages = [{ role: "user", content: "Paint." }];

      for (const words of ['{"colour": "re', ""]) {
        model.says({ ...calls(["paint", words]), text: "Well: ", finishReason: "length" });
        const { content, tool_calls } = await complete({ messages, tools });

        assert.deepEqual([content, tool_calls, model.requests.length], ["Well: ", undefined, 1]);
      }
    },
  },
  {
    title: "a whole call beside the limit of the output runs",
    async run({ model, chat }) {
      model.says({ ...calls(["calculator", { expression: "6*7" }]), finishReason: "length" }, { text: "It is 42." });

      const { final } = await chat("What is 6 * 7?");

      assert.deepEqual([final?.content, model.requests.length], ["It is 42.", 2]);
    },
  },
  {
    title: "the tokens of a thought are told on /v1/responses, now and later, and on chat completions",
    async run({ model, server }) {
      const usage = { prompt_tokens: 10, completion_tokens: 25, completion_tokens_details: { reasoning_tokens: 20 } };
      const counted = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;
      model.says({ steps: [{ send: `${chunk({ content: "Hello." }, "stop")}${counted}data: [DONE]\n\n` }] });

      const { json } = await server.post("/v1/responses", { model: "gpt", input: "Hello" });
      const { json: later } = await server.get(`/v1/responses/${json.id}`);
      const messages = [{ role: "user", content: "Hello" }];
      const { json: completion } = await server.post("/v1/chat/completions", { model: "gpt", messages });

      assert.deepEqual(json.usage.output_tokens_details, { reasoning_tokens: 20 });
      assert.deepEqual(later.usage, json.usage);
      assert.deepEqual(completion.usage.completion_tokens_details, { reasoning_tokens: 20 });
    },
  },
  {
    title: "an id that another model has made longer than 40 characters goes back shorter",
    async run({ model, other, chat }) {
      const id = `call_${"x".repeat(80)}`;
      other("ollama").says(
        { toolCalls: [{ id, name: "calculator", arguments: '{"expression":"6*7"}' }] },
        { text: "42." },
      );
      model.says({ text: "Still 42." });

      await chat("What is 6 * 7?", { manifest: "ollama" });
      const { final } = await chat("And once more?");

      assert.equal(final?.content, "Still 42.");
    },
  },
];
