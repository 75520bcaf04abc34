import assert from "node:assert/strict";
import { type ChatBody, calculation, deltas } from "../../../support/families/family.ts";
import { anySignature, signedBy } from "../../../support/families/gemini.ts";
import { proofOf } from "../../../support/families/rules.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";
import { failure } from "../../../support/mock-model/behaviours.ts";

const product = '{"expression":"6*7"}';
const sum = '{"expression":"1+1"}';
const signedProduct = calculation("call_1", "6*7", signedBy("calculator", product));
const signedSum = calculation("call_2", "1+1", signedBy("calculator", sum));

const lookup = {
  type: "function",
  function: { name: "look_up", description: "Looks up.", parameters: { type: "object", properties: {} } },
};
const lookupCall = (id: string) => ({ id, type: "function", function: { name: "look_up", arguments: "{}" } });
const wantLookup = deltas({ tool_calls: [{ index: 0, ...lookupCall("fc_1"), ...signedBy("look_up", "{}") }] });

/** The signatures of all calls of a request, message by message. */
function signatures({ messages }: ChatBody | undefined = { model: "", messages: [] }): unknown[][] {
  const asked = messages.flatMap(({ tool_calls }) => (tool_calls === undefined ? [] : [tool_calls]));
  return asked.map((calls) =>
    calls.map(({ extra_content }) => Object(extra_content).google?.thought_signature ?? null),
  );
}

export const geminiCases: readonly FamilyCase[] = [
  {
    title: "the signature of a call goes back in every later request of a thread, also after a restart",
    async run({ model, chat, server, thread }) {
      const { extra_content: proof } = signedBy("calculator", product);
      model.says(deltas({ tool_calls: [{ index: 0, ...signedProduct }] }), { text: "42." }, { text: "Again 42." });

      await chat("What is 6 * 7?");
      await server.restart();
      const { final } = await chat("And once more?");
      const places = [`history/${thread}`, `sessions/${thread}`, `sessions/${thread}/export`];
      const told = await Promise.all(places.map((place) => server.get(`/chat/${place}`)));

      assert.equal(final?.content, "Again 42.");
      assert.deepEqual(signatures(model.requests[2]), signatures(model.requests[1]));
      assert.deepEqual(signatures(model.requests[1]), [
        [(proof as { google: { thought_signature: string } }).google.thought_signature],
      ]);
      for (const { status, text } of told) assert.equal(status, 200, text);
      for (const { text } of told) assert.doesNotMatch(text, /thought_signature|extra_content/);
    },
  },
  {
    title: "parallel calls go back with the one signature that they came with",
    async run({ model, chat }) {
      const calls = [
        { index: 0, ...signedProduct },
        { index: 1, ...calculation("call_2", "1+1") },
      ];
      model.says(deltas({ tool_calls: calls }), { text: "42 and 2." });

      const { final } = await chat("What is 6 * 7, and 1 + 1?");

      assert.equal(final?.content, "42 and 2.");
      assert.deepEqual(signatures(model.requests[1])[0]?.[1], null);
    },
  },
  {
    title: "two steps of a turn each go back with their own signature",
    async run({ model, chat }) {
      model.says(
        deltas({ tool_calls: [{ index: 0, ...signedProduct }] }),
        deltas({ tool_calls: [{ index: 0, ...signedSum }] }),
        { text: "44." },
      );

      const { final } = await chat("What is 6 * 7 + 1 + 1?");

      assert.equal(final?.content, "44.");
      assert.equal(new Set(signatures(model.requests[2]).flat()).size, 2);
    },
  },
  {
    title: "a call that another model has made is signed with the value that Gemini takes for any",
    route: "gpt-then-gemini",
    async run({ other, chat }) {
      other("gpt").says(deltas({ tool_calls: [{ index: 0, ...calculation("call_1", "6*7") }] }), failure(503));
      other("gemini").says({ text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.deepEqual(signatures(other("gemini").requests[0]), [[anySignature]]);
      assert.deepEqual(other("gemini").refused, []);
    },
  },
  {
    title: "the signature of a call goes to no fallback of another provider",
    route: "gemini-then-gpt",
    async run({ other, chat }) {
      other("gemini").says(deltas({ tool_calls: [{ index: 0, ...signedProduct }] }), failure(503));
      other("gpt").says({ text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.doesNotMatch(JSON.stringify(other("gpt").requests), /extra_content|signature/);
    },
  },
  {
    title: "an answer that ends with MAX_TOKENS has the stop reason max_tokens",
    async run({ model, chat }) {
      model.says({ text: "Hel", finishReason: "MAX_TOKENS" });

      const { final, stop_reason } = await chat("Hello");

      assert.deepEqual([final?.content, stop_reason], ["Hel", "max_tokens"]);
    },
  },
  {
    title: "the signature of a client's call comes back from memory on stateless chat completions",
    async run({ model, complete }) {
      model.says(wantLookup, { text: "Found." }, { text: "Still found." });
      const ask = { role: "user", content: "Look it up." };

      const asked = await complete({ messages: [ask], tools: [lookup] });
      const [call] = asked.tool_calls as { id: string }[];
      const history = [ask, asked, { role: "tool", tool_call_id: call?.id, content: "found" }];
      const { content } = await complete({ messages: history, tools: [lookup] });
      await complete({ messages: history, tools: [lookup] });

      assert.equal(content, "Found.");
      assert.doesNotMatch(JSON.stringify(asked), /extra_content|signature/);
      assert.deepEqual(signatures(model.requests[1]), [[proofOf("look_up{}")]]);
      assert.deepEqual(signatures(model.requests[2]), signatures(model.requests[1]));
    },
  },
  {
    title: "the signature of a client's call comes back on a thread that user names",
    async run({ model, complete, thread }) {
      model.says(wantLookup, { text: "Found." });
      const ask = { role: "user", content: "Look it up." };

      const asked = await complete({ messages: [ask], tools: [lookup], user: thread });
      const [call] = asked.tool_calls as { id: string }[];
      const result = { role: "tool", tool_call_id: call?.id, content: "found" };
      await complete({ messages: [ask, asked, result], tools: [lookup], user: thread });

      assert.deepEqual(signatures(model.requests[1]), [[proofOf("look_up{}")]]);
    },
  },
  {
    title: "the signature of a client's call comes back on /v1/responses",
    async run({ model, server }) {
      const { description, parameters } = lookup.function;
      const tools = [{ type: "function", name: "look_up", description, parameters }];
      model.says(wantLookup, { text: "Found." });
      const respond = (input: unknown) => server.post("/v1/responses", { model: "gemini", input, tools });

      const { json: asked } = await respond("Look it up.");
      const [call] = asked.output as { call_id: string }[];
      const output = { type: "function_call_output", call_id: call?.call_id, output: "found" };
      await respond([{ role: "user", content: "Look it up." }, call, output]);

      assert.deepEqual(signatures(model.requests[1]), [[proofOf("look_up{}")]]);
    },
  },
  {
    title: "what a client sends back of a call is passed on, and an unknown call is signed with the value for any",
    async run({ model, complete }) {
      model.says({ text: "Found." });
      const call = (id: string, more: object) => ({ ...lookupCall(id), ...more });
      const own = signedBy("look_up", "{}");
      const turn = (quoted: object) => ({
        messages: [
          { role: "user", content: "Look it up." },
          { role: "assistant", content: null, tool_calls: [quoted] },
          { role: "tool", tool_call_id: "call_x", content: "found" },
        ],
        tools: [lookup],
      });

      await complete(turn(call("call_x", own)));
      await complete(turn(call("call_x", {})));

      assert.deepEqual(model.requests.map(signatures), [[[proofOf("look_up{}")]], [[anySignature]]]);
    },
  },
  {
    title: "a signature that the API does not know any more is left out of the next try",
    async run({ model, chat }) {
      const broken = { extra_content: { google: { thought_signature: "of another account" } } };
      model.says(deltas({ tool_calls: [{ index: 0, ...calculation("call_1", "6*7", broken) }] }), { text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.equal(model.refused.splice(0).length, 1);
      assert.deepEqual(signatures(model.requests[1]), [[anySignature]]);
    },
  },
  {
    title: "calls that a client returns in another order keep their own signatures",
    async run({ model, complete }) {
      const second = { id: "fc_2", type: "function", function: { name: "look_up", arguments: '{"in":"b"}' } };
      const both = [
        { index: 0, ...lookupCall("fc_1"), ...signedBy("look_up", "{}") },
        { index: 1, ...second },
      ];
      model.says(deltas({ tool_calls: both }), { text: "Found." });
      const ask = { role: "user", content: "Look it up." };

      const asked = await complete({ messages: [ask], tools: [lookup] });
      const tool_calls = (asked.tool_calls as { id: string }[]).toReversed();
      const results = tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "found" }));
      await complete({ messages: [ask, { ...asked, tool_calls }, ...results], tools: [lookup] });

      assert.deepEqual(signatures(model.requests[1]), [[anySignature, proofOf("look_up{}")]]);
    },
  },
];
