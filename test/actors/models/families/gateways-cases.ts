import assert from "node:assert/strict";
import { chunk } from "../../../support/chat.ts";
import type { FamilyCase } from "../../../support/families/talk.ts";

export const gatewaysCases: readonly FamilyCase[] = [
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
