// Thoughts between the texts of a model: the stream's events equal the stored response.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI from "openai";
import { chunk, never, shown, startChat, turn } from "../../support/chat.ts";
import type { Script } from "../../support/mock-model/script.ts";
import type { MockModel } from "../../support/mock-model.ts";
import type { TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const models = ["mixed", "lost", "stopped", "failed", "halted"];

describe("thoughts of a response", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    const agents = models.map((id) => [id, { model: { id }, tools: ["calculator"] }]);
    ({ server, mock } = await startChat(atEnd, { models, manifests: Object.fromEntries(agents) }));
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "any", maxRetries: 0 });
  });

  const piece = (kind: "thought" | "text", text: string) => ({
    send: chunk(kind === "thought" ? { reasoning_content: text } : { content: text }, null),
  });
  const whole: Script["steps"] = [{ send: `${chunk({}, "stop")}data: [DONE]\n\n` }];
  const mixed: Script["steps"] = [
    piece("text", "Well. "),
    piece("thought", "Which"),
    piece("thought", " one?"),
    piece("text", "This 🙂"),
    piece("thought", "Or not."),
    piece("text", " one."),
  ];
  const words = (output: readonly OpenAI.Responses.ResponseOutputItem[]) =>
    output.flatMap((item) =>
      ("content" in item ? (item.content ?? []) : []).map((part) => ("text" in part ? part.text : "")),
    );
  const streamed = async (model: string, fields: object = {}) => {
    const events: OpenAI.Responses.ResponseStreamEvent[] = await Array.fromAsync(
      await client.responses.create({ model, input: "hi", stream: true, ...fields }),
    );
    const last = events.at(-1);
    assert.ok(last !== undefined && "response" in last);
    const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
    return { events, done, response: last.response };
  };

  test("thoughts between texts have an item each: streamed, whole, and read again", async () => {
    mock.answer("mixed", { steps: [...mixed, ...whole] });

    const { done, response } = await streamed("mixed");
    const plain = await client.responses.create({ model: "mixed", input: "hi" });
    const background = await streamed("mixed", { background: true });

    const expected = ["Well. ", "Which one?", "This 🙂", "Or not.", " one."];
    assert.deepEqual(words(response.output), expected);
    assert.deepEqual(done, response.output);
    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    assert.deepEqual(words(plain.output), expected);
    assert.deepEqual((await client.responses.retrieve(plain.id)).output, plain.output);
    assert.deepEqual(words(background.response.output), expected);
    const item = plain.output[2];
    const next = await client.responses.create({
      model: "mixed",
      input: [
        { type: "item_reference", id: item?.id ?? "" },
        { role: "user", content: "And?" },
      ],
    });
    assert.equal(next.status, "completed");
  });

  test("thoughts in a reply that was cut off can be read again too", async () => {
    mock.answer("stopped", { steps: [...mixed, { hold: never }] });
    const stream = await client.responses.create({ model: "stopped", input: "hi", stream: true });
    let id = "";
    let output: readonly OpenAI.Responses.ResponseOutputItem[] = [];

    for await (const event of stream) {
      if (event.type === "response.created") ({ id } = event.response);
      if (event.type === "response.output_text.delta" && event.delta === " one.") await client.responses.cancel(id);
      if (event.type === "response.incomplete") ({ output } = event.response);
    }

    assert.equal(words(output).join("|"), "Well. |Which one?|This 🙂|Or not.| one.");
    assert.deepEqual((await client.responses.retrieve(id)).output, output);
  });

  test("thoughts of a lost try stay sent, separate from the next ones, and are logged", async () => {
    const lost: Script = { steps: [piece("thought", "Let me th"), { cut: "reset" }] };
    const thinks: Script = { steps: [piece("thought", "Let me think."), piece("text", "Done."), ...whole] };
    mock.answer("lost", lost, thinks, lost, thinks);

    const { events, response } = await streamed("lost");
    const stream = await server.stream("/chat/stream", turn("lost", "hi", { thread_id: "lost" }));
    const frames = await stream.rest();

    const told = "Let me th\n\nLet me think.";
    const deltas = events.flatMap((event) => (event.type === "response.reasoning_text.delta" ? [event.delta] : []));
    assert.equal(deltas.join(""), told);
    assert.deepEqual(words(response.output), [told, "Done."]);
    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    const thoughts = frames.filter(({ name }) => name === "thinking_delta");
    assert.equal(thoughts.map(({ json }) => json.data.delta).join(""), told);
    const { json } = await server.get("/chat/sessions/lost");
    const kept = json.transcript.at(-1).metadata.thinking as { thinking: string }[];
    assert.equal(kept.map(({ thinking }) => thinking).join(""), told);
  });

  test("a failure after thoughts keeps them for the client, not for later turns", async () => {
    const fails: Script = { steps: [piece("thought", "Let me th"), { cut: "reset" }] };
    mock.answer("failed", fails, fails, fails, { steps: [piece("text", "Done."), ...whole] });
    mock.answer("halted", { steps: [piece("thought", "Let me th"), { hold: never }] });

    const { response } = await streamed("failed");
    const next = await client.responses.create({ model: "failed", input: "and?", previous_response_id: response.id });
    const stream = await client.responses.create({ model: "halted", input: "hi", stream: true });
    let halted: OpenAI.Responses.Response | undefined;
    for await (const event of stream) {
      if (event.type === "response.reasoning_text.delta") await client.responses.cancel(halted?.id ?? "");
      if ("response" in event) halted = event.response;
    }

    assert.equal(response.status, "failed");
    assert.match(words(response.output).join("|"), /^Let me th/);
    assert.ok(response.error?.message.startsWith("model provider failed: "), response.error?.message);
    const { output_text: _joined, ...again } = await client.responses.retrieve(response.id);
    assert.deepEqual(again, response);
    assert.equal(next.status, "completed");
    const read = shown(mock.requests.at(-2)).filter(({ role }) => role !== "system");
    assert.deepEqual(
      read.map(({ content }) => content),
      ["hi", "and?"],
    );
    assert.deepEqual(words(halted?.output ?? []), ["Let me th"]);
    assert.deepEqual((await client.responses.retrieve(halted?.id ?? "")).output, halted?.output);
  });
});
