import assert from "node:assert/strict";
import type { FamilyCase } from "../../../support/families/talk.ts";

export const geminiCases: readonly FamilyCase[] = [
  {
    title: "a second turn of a thread is answered",
    async run({ model, chat }) {
      model.says({ text: "Hello." }, { text: "It is 42." });

      await chat("Hello");
      const { final } = await chat("What is 6 * 7?");

      assert.deepEqual(final, { role: "assistant", content: "It is 42." });
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
];
