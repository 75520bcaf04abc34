import assert from "node:assert/strict";
import { chunk } from "../../../support/chat.ts";
import { calculation, deltas } from "../../../support/families/family.ts";
import { reasoningDetail, signedThought } from "../../../support/families/gateways.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";

const calculate = { tool_calls: [{ index: 0, ...calculation("toolu_1", "6*7") }] };

export const gatewaysCases: readonly FamilyCase[] = [
  {
    title: "OpenRouter gets back the details of a thought that came in pieces",
    async run({ model, chat, server, thread }) {
      const { text, signature, ...detail } = reasoningDetail("A product.", 0);
      const piece = (more: object, reasoning: string) => ({
        ...{ content: "", reasoning },
        reasoning_details: [{ ...detail, ...more }],
      });
      model.says(
        deltas(
          piece({ text: "A pro" }, "A pro"),
          piece({ text: "duct." }, "duct."),
          piece({ signature }, ""),
          calculate,
        ),
        { text: "42." },
        { text: "Again 42." },
      );

      await chat("What is 6 * 7?");
      const { final } = await chat("And once more?");
      const { text: history } = await server.get(`/chat/history/${thread}`);

      assert.equal(final?.content, "Again 42.");
      const [asked] = model.requests[2]?.messages.filter(({ tool_calls }) => tool_calls !== undefined) ?? [];
      assert.deepEqual(asked?.reasoning_details, [{ ...detail, text, signature }]);
      assert.equal(asked?.reasoning, undefined);
      assert.doesNotMatch(history, /reasoning_details/);
    },
  },
  {
    title: "OpenRouter gets back what only the provider can read",
    async run({ model, chat }) {
      const sealed = {
        type: "reasoning.encrypted",
        data: "c2VhbGVk",
        id: "rs_1",
        format: "openai-responses-v1",
        index: 1,
      };
      model.says(
        deltas({ reasoning_details: [reasoningDetail("A product.", 0)] }, { reasoning_details: [sealed] }, calculate),
        {
          text: "42.",
        },
      );

      await chat("What is 6 * 7?");

      const asked = model.requests[1]?.messages.find(({ tool_calls }) => tool_calls !== undefined);
      assert.deepEqual(asked?.reasoning_details, [reasoningDetail("A product.", 0), sealed]);
    },
  },
  {
    title: "LiteLLM gets back its thinking blocks, each with its signature",
    route: "litellm",
    async run({ model, chat }) {
      const pieces = ["A product.", "Surely."].flatMap((thinking) => [
        { reasoning_content: thinking, thinking_blocks: [{ type: "thinking", thinking, signature: null }] },
        {
          reasoning_content: "",
          thinking_blocks: [{ type: "thinking", thinking: "", signature: signedThought(thinking).signature }],
        },
      ]);
      model.says(deltas(...pieces, calculate), { text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      const asked = model.requests[1]?.messages.find(({ tool_calls }) => tool_calls !== undefined);
      assert.deepEqual(asked?.thinking_blocks, [signedThought("A product."), signedThought("Surely.")]);
    },
  },
  {
    title: "an answer that was cut off before its first word is left out of later requests",
    async run({ model, chat }) {
      model.says({ text: [], finishReason: "length" }, { text: "Here." });

      await chat("Hello");
      const { final } = await chat("Are you there?");

      assert.equal(final?.content, "Here.");
    },
  },
  {
    title: "fields of more than 64 KiB are lost, and so are not sent",
    async run({ model, chat }) {
      const large = { type: "reasoning.encrypted", data: "x".repeat(64 * 1024), index: 0 };
      model.says(deltas({ content: "Hello.", reasoning_details: [large] }), { text: "Here." });

      await chat("Hello");
      await chat("Are you there?");

      const [, said] = model.requests[1]?.messages.filter(({ role }) => role !== "system") ?? [];
      assert.deepEqual([said?.content, said?.reasoning_details], ["Hello.", undefined]);
    },
  },
  {
    title: "padding of the stream says nothing",
    async run({ model, chat }) {
      const padding = [": OPENROUTER PROCESSING", "data: null", 'data: "ping"', "event: ping\ndata: ping"];
      const send = `${padding.map((line) => `${line}\n\n${chunk({ content: "a" }, null)}`).join("")}${chunk({}, "stop")}`;
      model.says({ headers: { "content-type": "text/plain" }, steps: [{ send }] });

      const { final } = await chat("Hello");

      assert.equal(final?.content, "aaaa");
    },
  },
  {
    title: "an error object in a choice is a failure of its status",
    async run({ model, chat, server }) {
      const failed = (code: number) => {
        const error = { code, message: "The provider is down." };
        return { steps: [{ send: event({ choices: [{ index: 0, delta: {}, finish_reason: "error", error }] }) }] };
      };
      model.says(failed(502), { text: "Hello." });
      const { final } = await chat("Hello");
      model.says(failed(402));
      const messages = [{ role: "user", content: "Hello" }];
      const refused = await server.post("/chat", { manifest: "openrouter", messages });

      assert.deepEqual([final?.content, refused.status, model.requests.length], ["Hello.", 502, 1]);
      assert.match(refused.json.message, /The provider is down/);
    },
  },
];

function event(document: object): string {
  return `data: ${JSON.stringify(document)}\n\n`;
}
