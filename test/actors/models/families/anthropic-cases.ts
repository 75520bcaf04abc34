import assert from "node:assert/strict";
import type { FamilyCase } from "../../../support/families/talk.ts";

export const anthropicCases: readonly FamilyCase[] = [
  {
    title: "a call and its result go back with the signed thought before it",
    async run({ anthropic, chat }) {
      const call = { id: "toolu_1", name: "calculator", input: { expression: "6*7" } };
      anthropic.answer(
        "claude-sonnet-5",
        { parts: [{ thinking: "A product." }, { call }] },
        { parts: [{ text: "It is 42." }] },
      );

      const { final } = await chat("What is 6 * 7?");

      assert.deepEqual(final, { role: "assistant", content: "It is 42." });
    },
  },
  {
    title: "a turn behind a call without a thought is answered without thinking",
    async run({ anthropic, chat, server, thread }) {
      const model = "claude-sonnet-5";
      const call = { id: "toolu_1", name: "calculator", input: { expression: "6*7" } };
      anthropic.facts(model, { thinking: "budget" });
      anthropic.answer(model, { parts: [{ call }] }, { parts: [{ text: "It is 42." }] });

      await chat("What is 6 * 7?", { manifest: "claude-one-step" });
      await server.post("/chat/thinking", { thread_id: thread, thinking_level: "medium" });
      const second = await chat("And?");
      const third = await chat("Sure?");

      const refused = anthropic.refused.splice(0).map(({ words }) => words);
      const thinking = anthropic.requests.slice(-2).map(({ body }) => Object(body.thinking).type);
      assert.deepEqual([second.final?.content, third.final?.content], ["It is 42.", "It is 42."]);
      assert.match(refused.at(-1) ?? "", /must start with a thinking block/);
      assert.deepEqual(thinking, [undefined, "enabled"]);
    },
  },
  {
    title: "a thought that another provider of the protocol has not signed goes back as it came",
    async run({ anthropic, chat }) {
      const call = { id: "toolu_1", name: "calculator", input: { expression: "6*7" } };
      anthropic.facts("claude-sonnet-5", { unsigned: true });
      anthropic.answer(
        "claude-sonnet-5",
        { parts: [{ thinking: "A product.", signature: "" }, { call }] },
        { parts: [{ text: "It is 42." }] },
      );

      const { final } = await chat("What is 6 * 7?");
      anthropic.facts("claude-sonnet-5", {});

      assert.equal(final?.content, "It is 42.");
      const [thought] = anthropic.requests.at(-1)?.body.messages[1]?.content ?? [];
      assert.deepEqual(thought, { type: "thinking", thinking: "A product.", signature: "" });
    },
  },
  {
    title: "an answer that was cut off in a thought is left out of later requests",
    async run({ anthropic, chat }) {
      anthropic.answer(
        "claude-sonnet-5",
        { parts: [{ thinking: "Hm." }], stop: "max_tokens" },
        { parts: [{ text: "Here. " }, { thinking: "Or not." }], stop: "max_tokens" },
        { parts: [{ text: "Yes." }] },
      );

      await chat("Hello");
      await chat("Are you there?");
      const { final } = await chat("Still?");

      assert.equal(final?.content, "Yes.");
    },
  },
  ...(
    [
      ["in its arguments", ['{"expression": "6*']],
      ["before its arguments", []],
    ] as const
  ).map(
    ([where, input]): FamilyCase => ({
      title: `a call that is cut off by length ${where} ends the turn and does not run`,
      async run({ anthropic, chat }) {
        const call = { id: "toolu_1", name: "calculator", input };
        anthropic.answer(
          "claude-sonnet-5",
          { parts: [{ text: "Well: " }, { call }], stop: "max_tokens" },
          { parts: [{ text: "It is 42." }] },
        );
        const before = anthropic.requests.length;

        const first = await chat("What is 6 * 7?");
        const asked = anthropic.requests.length - before;
        const second = await chat("Again?");

        assert.deepEqual([first.final?.content, first.stop_reason, asked], ["Well: ", "max_tokens", 1]);
        assert.deepEqual([second.final?.content, second.stop_reason], ["It is 42.", "end_turn"]);
      },
    }),
  ),
];
