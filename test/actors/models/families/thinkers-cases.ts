import assert from "node:assert/strict";
import type { FamilyCase } from "../../../support/families/talk.ts";

export const thinkersCases: readonly FamilyCase[] = [
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
    title: "an answer that ends for want of resources is asked for again",
    async run({ model, chat }) {
      model.says({ text: [], finishReason: "insufficient_system_resource" }, { text: "Hello." });

      const { final } = await chat("Hello");

      assert.deepEqual([final?.content, model.requests.length], ["Hello.", 2]);
    },
  },
];
