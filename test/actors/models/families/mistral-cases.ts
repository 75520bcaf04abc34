import assert from "node:assert/strict";
import { calls } from "../../../support/chat.ts";
import { type ChatBody, calculation, deltas } from "../../../support/families/family.ts";
import { callsOf } from "../../../support/families/rules.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";
import { failure } from "../../../support/mock-model/behaviours.ts";

const calculate = calls(["calculator", { expression: "6*7" }]);
const lookup = {
  type: "function",
  function: { name: "look_up", description: "Looks up.", parameters: { type: "object", properties: {} } },
};
const wantLookup = deltas({
  tool_calls: [{ index: 0, id: "a1B2c3D4e", type: "function", function: { name: "look_up", arguments: "{}" } }],
});

/** The ids of the calls of a request, and those of its results. */
function ids(body: ChatBody | undefined): [calls: string[], results: unknown[]] {
  if (body === undefined) return [[], []];
  const results = body.messages.flatMap(({ role, tool_call_id }) => (role === "tool" ? [tool_call_id] : []));
  return [callsOf(body).map(({ id }) => id), results];
}

export const mistralCases: readonly FamilyCase[] = [
  {
    title: "an id of nine letters stays as the model has made it",
    async run({ model, chat }) {
      model.says(deltas({ tool_calls: [{ index: 0, ...calculation("a1B2c3D4e", "6*7") }] }), { text: "42." });

      await chat("What is 6 * 7?");

      assert.deepEqual(ids(model.requests[1]), [["a1B2c3D4e"], ["a1B2c3D4e"]]);
    },
  },
  {
    title: "an id of another form is the same nine letters for a call and its result",
    async run({ model, chat }) {
      model.says(calculate, { text: "42." }, { text: "Again 42." });

      await chat("What is 6 * 7?");
      await chat("And once more?");

      const [[id], results] = ids(model.requests[1]);
      assert.match(String(id), /^[a-zA-Z0-9]{9}$/);
      assert.deepEqual(results, [id]);
      assert.deepEqual(ids(model.requests[2]), ids(model.requests[1]));
    },
  },
  {
    title: "the calls of a step have ids of their own when the model has given them none",
    async run({ model, chat }) {
      const nameless = [calculation("", "6*7"), calculation("", "1+1")].map((call, index) => ({ index, ...call }));
      model.says(deltas({ tool_calls: nameless }), { text: "42 and 2." });

      await chat("What is 6 * 7, and 1 + 1?");

      const [asked, results] = ids(model.requests[1]);
      assert.equal(new Set(asked).size, 2);
      assert.deepEqual(results, asked);
    },
  },
  {
    title: "a fallback in mid-turn goes on with the calls of another model",
    route: "gpt-then-mistral",
    async run({ other, chat }) {
      other("gpt").says(calculate, failure(503));
      other("mistral").says({ text: "42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "42.");
      assert.deepEqual(other("mistral").refused, []);
    },
  },
  {
    title: "a thread that another model has begun goes on",
    async run({ model, other, chat }) {
      other("gpt").says(calculate, { text: "42." });
      model.says({ text: "Still 42." });

      await chat("What is 6 * 7?", { manifest: "gpt" });
      const { final } = await chat("And once more?");

      assert.equal(final?.content, "Still 42.");
    },
  },
  {
    title: "a client of chat completions gets its call under the id of svc and returns it",
    async run({ model, complete }) {
      model.says(wantLookup, { text: "Found." });
      const ask = { role: "user", content: "Look it up." };

      const asked = await complete({ messages: [ask], tools: [lookup] });
      const [call] = asked.tool_calls as { id: string }[];
      const result = { role: "tool", tool_call_id: call?.id, content: "found" };
      const { content } = await complete({ messages: [ask, asked, result], tools: [lookup] });

      assert.equal(content, "Found.");
      assert.match(String(call?.id), /^call_[0-9a-f]{32}$/);
    },
  },
  {
    title: "a client of responses returns its call",
    async run({ model, server }) {
      const { description, parameters } = lookup.function;
      const tools = [{ type: "function", name: "look_up", description, parameters }];
      model.says(wantLookup, { text: "Found." });
      const respond = (input: unknown) => server.post("/v1/responses", { model: "mistral", input, tools });

      const { json: asked } = await respond("Look it up.");
      const [call] = asked.output as { call_id: string }[];
      const output = { type: "function_call_output", call_id: call?.call_id, output: "found" };
      const { status, json } = await respond([{ role: "user", content: "Look it up." }, call, output]);

      assert.equal(status, 200);
      assert.equal(json.output[0].content[0].text, "Found.");
    },
  },
  {
    title: "a server of one's own that refuses an id is given nine letters from then on",
    route: "devstral",
    async run({ model, chat }) {
      model.says(calculate, { text: "42." }, { text: "Again 42." });

      await chat("What is 6 * 7?");
      const refused = model.refused.splice(0);
      const { final } = await chat("And once more?");

      assert.equal(final?.content, "Again 42.");
      assert.equal(refused.length, 1);
      assert.match(refused[0] ?? "", /3280/);
    },
  },
  {
    title: "a user who speaks behind results is heard when the model has said nothing to them",
    async run({ model, chat }) {
      model.says(calculate, { text: "" }, { text: "It was 42." });

      await chat("What is 6 * 7?");
      const { final } = await chat("Well?");

      assert.equal(final?.content, "It was 42.");
      assert.deepEqual(
        model.requests[2]?.messages.map(({ role }) => role).filter((role) => role !== "system"),
        ["user", "assistant", "tool", "assistant", "user"],
      );
    },
  },
  {
    title: "an answer of blanks alone is left out of later requests",
    async run({ model, chat }) {
      model.says({ text: " \n" }, { text: "Here." });

      await chat("Hello");
      const { final } = await chat("Are you there?");

      assert.equal(final?.content, "Here.");
    },
  },
  {
    title: "an answer that fills the model's window has the stop reason max_tokens",
    async run({ model, chat }) {
      model.says({ text: "Hel", finishReason: "model_length" });

      const { final, stop_reason } = await chat("Hello");

      assert.deepEqual([final?.content, stop_reason], ["Hel", "max_tokens"]);
    },
  },
  {
    title: "a field that a server of one's own sends and refuses does not go back from then on",
    route: "devstral",
    async run({ model, chat }) {
      const asks = (id: string) =>
        deltas({ reasoning_content: "A product." }, { tool_calls: [{ index: 0, ...calculation(id, "6*7") }] });
      model.says(asks("a1B2c3D4e"), { text: "42." }, asks("a1B2c3D4f"), { text: "Again 42." });

      await chat("What is 6 * 7?");
      const refused = model.refused.splice(0);
      const { final } = await chat("And once more?");

      assert.equal(final?.content, "Again 42.");
      assert.equal(refused.length, 1);
      assert.match(refused[0] ?? "", /extra_forbidden/);
    },
  },
];
