import assert from "node:assert/strict";
import { calls } from "../../../support/chat.ts";
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
];
