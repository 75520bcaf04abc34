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
];
