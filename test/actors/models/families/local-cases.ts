import assert from "node:assert/strict";
import { calls, chunk } from "../../../support/chat.ts";
import { callsOf } from "../../../support/families/rules.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";

/** Arguments that are not a JSON object, and their form in later requests. */
const broken: readonly (readonly [said: string, back: string])[] = [
  ['{"expression": "6*', '{"expression": "6*'],
  ['"x"', "x"],
  ["null", "null"],
  ["[1]", "[1]"],
  ["42", "42"],
  ['{"expression":"1"}{"expression":"2"}', '{"expression":"1"}{"expression":"2"}'],
];

export const localCases: readonly FamilyCase[] = [
  {
    title: "a call and its result go back and are taken",
    async run({ model, chat }) {
      model.says(calls(["calculator", { expression: "6*7" }]), { text: "It is 42." });

      const { final } = await chat("What is 6 * 7?");

      assert.deepEqual(final, { role: "assistant", content: "It is 42." });
    },
  },
  {
    title: "a control token behind a tool's name and repeated arguments are read as the call that they mean",
    route: "llama-cpp",
    async run({ model, chat }) {
      const name = "calculator<|channel|>commentary";
      const whole = '{"expression":"6*7"}';
      const piece = (words: string) =>
        chunk({ tool_calls: [{ index: 0, id: "c1", function: { name, arguments: words } }] }, null);
      const pieces = [whole.slice(0, 5), whole.slice(0, 12), whole].map(piece);
      model.says({ steps: [{ send: pieces.join("") + chunk({}, "tool_calls") }] }, { text: "It is 42." });

      const { final } = await chat("What is 6 * 7?");

      assert.equal(final?.content, "It is 42.");
      assert.deepEqual(model.requests.at(-1)?.messages.at(-1)?.content, "42");
    },
  },
  ...(
    [
      ["an output_schema", "local-schema", '{"n":7}', []],
      ["a router", "local-router", '{"agent":"ollama"}', []],
      ["a planner", "local-planner", '{"subtasks":[]}', [{ text: "Planned." }]],
      ["a verifier", "local-judge", '{"score":1,"feedback":""}', []],
    ] as const
  ).map(
    ([what, manifest, fits, then]): FamilyCase => ({
      title: `${what} is told its schema in words on the second try when the server ignores response_format`,
      route: "llama-cpp",
      async run({ model, other, chat }) {
        other("ollama").says({ text: "Hello." });
        model.says({ text: "I would say seven." }, { text: fits }, ...then);

        const { final } = await chat("Which?", { manifest });

        const [first, second] = model.requests.slice(0, 2).map(({ messages, response_format }) => ({
          words: JSON.stringify(messages),
          schema: JSON.stringify((response_format as { json_schema: { schema: object } }).json_schema.schema),
        }));
        const quoted = JSON.stringify(String(second?.schema)).slice(1, -1);
        assert.equal(typeof final?.content, "string");
        assert.deepEqual([first?.words.includes(quoted), second?.words.includes(quoted)], [false, true]);
      },
    }),
  ),
  ...["ollama", "llama-cpp"].map(
    (route): FamilyCase => ({
      title: `arguments that are no JSON object go back to ${route} in one`,
      route,
      async run({ model, chat }) {
        const wanted = broken.map(([args]) => ["calculator", args] as const);
        model.says(calls(...wanted), { text: "I was wrong." }, { text: "Still here." });

        await chat("What is 6 * 7?");
        const { final } = await chat("And now?");

        assert.equal(final?.content, "Still here.");
        const [, , last] = model.requests;
        assert.deepEqual(
          last && callsOf(last).map((call) => JSON.parse(call.function.arguments)),
          broken.map(([, back]) => ({ arguments: back })),
        );
      },
    }),
  ),
];
