import assert from "node:assert/strict";
import { type ChatBody, calculation, deltas } from "../../../support/families/family.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";
import { failure } from "../../../support/mock-model/behaviours.ts";

const calculate = (...thoughts: readonly object[]) =>
  deltas(
    { role: "assistant", content: null, reasoning_content: "" },
    ...(thoughts as readonly Readonly<Record<string, unknown>>[]),
    { tool_calls: [{ index: 0, ...calculation("call_1", "6*7") }] },
  );
const aProduct = [{ reasoning_content: "A pro" }, { reasoning_content: "duct." }];

/** The thoughts of a request's messages. */
function thoughts(body: ChatBody | undefined): unknown[] {
  const asked = body?.messages.filter(({ role }) => role === "assistant") ?? [];
  return asked.map(({ reasoning_content }) => reasoning_content ?? null);
}

export const thinkersCases: readonly FamilyCase[] = [
  {
    title: "DeepSeek gets back what it has thought before a call in all later requests",
    async run({ model, chat, server, thread }) {
      model.says(calculate(...aProduct), { text: "42." }, { text: "Again 42." });

      await chat("What is 6 * 7?");
      const { final } = await chat("And once more?");
      const { json } = await server.get(`/chat/sessions/${thread}`);

      assert.equal(final?.content, "Again 42.");
      assert.deepEqual(thoughts(model.requests[2]), ["A product.", null]);
      const [told] = json.transcript.filter(({ toolCalls }: { toolCalls?: unknown }) => toolCalls !== undefined);
      assert.deepEqual(told.metadata.thinking, [{ type: "thinking", thinking: "A product." }]);
    },
  },
  {
    title: "DeepSeek gets back an empty thought when it has called without one",
    async run({ model, chat }) {
      model.says(calculate(), { text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.deepEqual(thoughts(model.requests[1]), [""]);
    },
  },
  {
    title: "Kimi gets back what it has thought before a call",
    route: "kimi",
    async run({ model, chat }) {
      model.says(calculate(...aProduct), { text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.deepEqual(thoughts(model.requests[1]), ["A product."]);
    },
  },
  {
    title: "an answer that is a thought alone is left out of later requests",
    route: "kimi",
    async run({ model, chat }) {
      model.says(deltas({ reasoning_content: "Nothing to say." }), { text: "Here." });

      await chat("Hello");
      const { final } = await chat("Are you there?");

      assert.equal(final?.content, "Here.");
    },
  },
  {
    title: "DeepSeek goes on with the calls of another model, whose thoughts it asks for in vain",
    route: "gpt-then-deepseek",
    async run({ other, chat }) {
      const deepseek = other("deepseek");
      other("gpt").says(deltas({ tool_calls: [{ index: 0, ...calculation("call_1", "6*7") }] }), failure(503));
      deepseek.says({ text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.equal(deepseek.refused.length, 1);
      assert.deepEqual(thoughts(deepseek.requests[0]), [""]);
    },
  },
  {
    title: "an answer that ends for want of resources is asked for again",
    async run({ model, chat }) {
      model.says({ text: [], finishReason: "insufficient_system_resource" }, { text: "Hello." });

      const { final } = await chat("Hello");

      assert.deepEqual([final?.content, model.requests.length], ["Hello.", 2]);
    },
  },
  {
    title: "DeepSeek gets back from memory what it has thought before a client's call",
    async run({ model, complete }) {
      const call = { index: 0, id: "c1", type: "function", function: { name: "look_up", arguments: "{}" } };
      model.says(deltas(...aProduct, { tool_calls: [call] }), { text: "Found." });
      const parameters = { type: "object", properties: {} };
      const tools = [{ type: "function", function: { name: "look_up", description: "Looks up.", parameters } }];
      const ask = { role: "user", content: "Look it up." };

      const asked = await complete({ messages: [ask], tools });
      const [{ id }] = asked.tool_calls as [{ id: string }];
      const quoted = { role: "assistant", content: null, tool_calls: asked.tool_calls };
      const { content } = await complete({
        messages: [ask, quoted, { role: "tool", tool_call_id: id, content: "1" }],
        tools,
      });

      assert.equal(content, "Found.");
      assert.deepEqual(thoughts(model.requests[1]), ["A product."]);
    },
  },
  {
    title: "DeepSeek gets what a client itself sends back of a thought, and no more of it than 64 KiB",
    async run({ model, complete }) {
      model.says({ text: "Found." });
      const call = { id: "call_x", type: "function", function: { name: "look_up", arguments: "{}" } };
      const tools = [
        { type: "function", function: { name: "look_up", parameters: { type: "object", properties: {} } } },
      ];
      const returning = (reasoning_content: string) =>
        complete({
          messages: [
            { role: "user", content: "Look it up." },
            { role: "assistant", content: null, reasoning_content, tool_calls: [call] },
            { role: "tool", tool_call_id: "call_x", content: "found" },
          ],
          tools,
        });

      await returning("A product.");
      const refusedBefore = model.refused.length;
      await returning("x".repeat(64 * 1024));

      assert.equal(refusedBefore, 0);
      assert.deepEqual(model.requests.map(thoughts), [["A product."], [""]]);
      model.refused.length = 0;
    },
  },
];
