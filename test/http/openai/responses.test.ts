// POST /v1/responses and the later life of a response, with the official client.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { APIError, BadRequestError, ConflictError, NotFoundError } from "openai";
import { calls, gate, inTurn, never, says, shown, startChat, systemOf } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { gif } from "../../support/image-bytes.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const models = [
  "plain",
  "thoughtful",
  "tools",
  "held",
  "never",
  "long",
  "recalls",
  "mock-status-400",
  "mock-truncated",
];
const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["*"] },
  bob: { tenant_id: "globex", scopes: ["*"] },
});
const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };

describe("the Responses API", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: Object.fromEntries(
        [...models, "sees"].map((id) => [
          id,
          { model: { id }, system_prompt: { inline: "Be kind." }, tools: ["calculator"] },
        ]),
      ),
      routes: { sees: { provider: "openai", model: "sees", modalities: ["text", "image"] } },
      env: keyed,
    }));
    mock.answer("sees", { text: "A dot." });
    mock.answer("plain", { text: ["The", " answer", "."], usage });
    mock.answer("thoughtful", { reasoning: ["Let me", " think."], text: "Done." });
    mock.answer("tools", inTurn({ text: "First. ", ...calls(["calculator", { expression: "6*7" }]) }, { text: "42." }));
    mock.answer("long", { text: "Too lo", finishReason: "length" });
    mock.answer("recalls", ({ body }) => ({ text: `saw ${(body.messages as unknown[]).length}` }));
    mock.answer("never", says("So far", never));
    client = clientOf(keys.ann);
  });

  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  type Fields = Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>;
  const ask = (model: string, fields: Fields = {}) => client.responses.create({ model, input: "hi", ...fields });
  const eventsOf = async (model: string, fields: Fields = {}) =>
    Array.fromAsync(await client.responses.create({ model, input: "hi", ...fields, stream: true }));
  async function rejection<E extends APIError>(kind: new (...args: never[]) => E, call: Promise<unknown>): Promise<E> {
    const error = await call.then(
      () => assert.fail("not rejected"),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof kind, String(error));
    return error;
  }
  const lastRequest = () => mock.requests.at(-1);
  const outline = (response: OpenAI.Responses.Response) =>
    response.output.map((item) => {
      if (item.type === "message") return [item.type, item.content.map((part) => "text" in part && part.text).join()];
      if (item.type === "reasoning") return [item.type, item.content?.map(({ text }) => text).join()];
      return [item.type];
    });

  test("a response is a turn of the manifest in its model, and can be read again", async () => {
    const response = await ask("plain", { metadata: { order: "7" }, temperature: 0.3, max_output_tokens: 50 });
    const again = await client.responses.retrieve(response.id);

    assert.match(response.id, /^resp_[0-9a-f]{48}$/);
    assert.ok(response.created_at > 1_700_000_000 && response.created_at < 10_000_000_000, "seconds");
    assert.deepEqual(
      [response.object, response.status, response.model, response.output_text, response.error],
      ["response", "completed", "plain", "The answer.", null],
    );
    assert.deepEqual(response.output, [
      {
        id: `msg_${response.id.slice(5)}_0`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: "The answer.", annotations: [], logprobs: [] }],
      },
    ]);
    assert.deepEqual(response.usage, {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 2,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 12,
    });
    assert.deepEqual(
      [response.metadata, response.temperature, response.max_output_tokens, response.previous_response_id],
      [{ order: "7" }, 0.3, 50, null],
    );
    assert.deepEqual(again, response);
    assert.equal(lastRequest()?.body.max_completion_tokens ?? lastRequest()?.body.max_tokens, 50);
  });

  test("a stream has the same response as numbered events, for the client's helper", async () => {
    const events = await eventsOf("thoughtful");
    const helped = await client.responses.stream({ model: "thoughtful", input: "hi" }).finalResponse();

    assert.deepEqual(
      events.map(({ type }) => type),
      [
        "response.created",
        "response.in_progress",
        ...added("reasoning_text", 2),
        ...added("output_text", 1),
        "response.completed",
      ],
    );
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
    );
    const last = events.at(-1);
    assert.ok(last?.type === "response.completed");
    assert.deepEqual(outline(last.response), [
      ["reasoning", "Let me think."],
      ["message", "Done."],
    ]);
    const deltas = events.flatMap((event) => (event.type === "response.reasoning_text.delta" ? [event.delta] : []));
    assert.deepEqual(deltas.join(""), "Let me think.");
    const { output_text: _, ...retrieved } = await client.responses.retrieve(last.response.id);
    assert.deepEqual(retrieved, last.response);
    assert.deepEqual([helped.status, helped.output_text], ["completed", "Done."]);
  });

  test("text before and after tool calls is a message each, in every form", async () => {
    const events = await eventsOf("tools");
    const whole = await ask("tools");

    const last = events.at(-1);
    assert.ok(last?.type === "response.completed");
    const expected = [
      ["message", "First. "],
      ["message", "42."],
    ];
    assert.deepEqual(outline(last.response), expected);
    assert.deepEqual(outline(whole), expected);
    assert.deepEqual(await client.responses.retrieve(whole.id), whole);
    const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
    assert.deepEqual(done, last.response.output);
  });

  test("previous_response_id continues the thread, also after a restart", async () => {
    const first = await ask("recalls", { input: "one", instructions: "Speak French." });
    const second = await ask("recalls", { input: "two", previous_response_id: first.id });
    await server.restart();
    client = clientOf(keys.ann);
    const third = await ask("recalls", { input: "three", previous_response_id: second.id });
    const read = await client.responses.retrieve(first.id);

    assert.deepEqual(
      shown(lastRequest()).map(({ content }) => content),
      ["one", "saw 2", "two", "saw 4", "three"],
    );
    assert.equal(third.output_text, "saw 6");
    assert.equal(third.previous_response_id, second.id);
    assert.equal(new Set([first.id, second.id, third.id]).size, 3);
    assert.deepEqual([read.output_text, read.instructions], ["saw 2", "Speak French."]);
  });

  test("instructions rank below the manifest's text, in all steps of their turn only", async () => {
    const before = mock.requests.length;
    const first = await ask("tools", { instructions: "Speak French." });
    const during = mock.requests.slice(before).map(systemOf);
    await ask("tools", { previous_response_id: first.id });
    const after = mock.requests.slice(before + 2).map(systemOf);

    assert.equal(during.length, 2);
    for (const system of during) {
      assert.match(system ?? "", /^Be kind\.[\s\S]*The client sent these instructions[\s\S]*Speak French\.$/);
    }
    assert.ok(after.length > 0 && after.every((system) => system === "Be kind."));
  });

  test("a running response cannot be continued", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    mock.answer("held", says("Wait", promise, "."));

    const stream = await client.responses.create({ model: "held", input: "hi", stream: true });
    const iterator = stream[Symbol.asyncIterator]();
    const created = (await iterator.next()).value;
    const live = await rejection(ConflictError, ask("plain", { previous_response_id: created.response.id }));
    const shownLive = await client.responses.retrieve(created.response.id);
    resolve();
    for (let next = await iterator.next(); !next.done; next = await iterator.next());

    assert.match(live.code ?? "", /^run_in_progress/);
    assert.deepEqual([shownLive.status, shownLive.output], ["in_progress", []]);
    assert.equal((await client.responses.retrieve(created.response.id)).output_text, "Wait.");
  });

  test("several continuations of one response: the first in its thread, others in copies", async () => {
    const first = await ask("recalls", { input: "one" });
    const both = await Promise.all(
      ["left", "right"].map((input) => ask("recalls", { input, previous_response_id: first.id })),
    );
    const later = await ask("recalls", { input: "later", previous_response_id: first.id });
    const behind = await ask("recalls", { input: "behind", previous_response_id: later.id });

    const said = (response: OpenAI.Responses.Response) => response.output_text;
    assert.deepEqual([...both.map(said), said(later), said(behind)], ["saw 4", "saw 4", "saw 4", "saw 6"]);
    assert.deepEqual(
      shown(lastRequest()).map(({ content }) => content),
      ["one", "saw 2", "later", "saw 4", "behind"],
    );
    const threads = [first, ...both, later, behind].map(({ id }) => id.slice(5, 37));
    assert.equal(new Set(threads).size, 3);
    assert.equal(threads.filter((thread) => thread === threads[0]).length, 2);
    assert.deepEqual(await client.responses.retrieve(later.id), later);
    assert.equal(later.previous_response_id, first.id);
    const refused = await rejection(BadRequestError, ask("plain", { previous_response_id: first.id, input: [] }));
    assert.equal(refused.status, 400);
  });

  test("input items: messages, quoted calls and results; thoughts are dropped", async () => {
    const response = await client.responses.create({
      model: "recalls",
      store: false,
      input: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: [{ type: "input_text", text: "What is 6*7?" }] },
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
        { type: "function_call", call_id: "call_1", name: "calculator", arguments: '{"expression":"6*7"}' },
        { type: "function_call_output", call_id: "call_1", output: "42" },
        {
          type: "message",
          id: "msg_1",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "It is 42.", annotations: [], logprobs: [] }],
        },
        { role: "user", content: "Sure?" },
      ],
    });

    const seen = shown(lastRequest()).map(({ role, content }) => [role, content]);
    assert.equal(seen.length, 4);
    assert.deepEqual(seen[0], ["user", "What is 6*7?"]);
    assert.match(seen[1]?.[1] ?? "", /quotes a tool result of "call_1"[\s\S]*42$/);
    assert.deepEqual(seen.slice(2), [
      ["assistant", "It is 42."],
      ["user", "Sure?"],
    ]);
    assert.match(systemOf(lastRequest()) ?? "", /^Be kind\.[\s\S]*Be brief\.$/);
    assert.equal((response as { store?: boolean }).store, false);
    assert.equal((await rejection(NotFoundError, client.responses.retrieve(response.id))).code, "unknown_response");
  });

  test("assistant messages of the input are not in the output, also when read again", async () => {
    const response = await ask("plain", {
      input: [
        { role: "user", content: "One?" },
        { role: "assistant", content: "One." },
        { role: "user", content: "Two?" },
      ],
    });

    assert.deepEqual((await client.responses.retrieve(response.id)).output, response.output);
    assert.deepEqual(outline(response), [["message", "The answer."]]);
  });

  test("an image of the input reaches the model, and one too many is refused by index", async () => {
    const url = `data:image/gif;base64,${gif.toString("base64")}`;
    const image = (image_url: string) => ({ type: "input_image" as const, image_url, detail: "low" as const });
    const text = { type: "input_text" as const, text: "What is it?" };
    const thought = { type: "reasoning" as const, id: "rs_1", summary: [] };

    const response = await ask("sees", { input: [{ role: "user", content: [text, image(url)] }] });
    const refused = await rejection(
      BadRequestError,
      ask("sees", { input: [thought, { role: "user", content: [text, ...Array(200).fill(image(url))] }] }),
    );

    assert.equal(response.output_text, "A dot.");
    const given = shown(lastRequest())[0]?.content as unknown as { type: string; image_url?: { url: string } }[];
    assert.equal(given.find(({ type }) => type === "image_url")?.image_url?.url, url);
    assert.match(refused.param ?? "", /^input\.1\.content\.\d+$/);
  });

  test("a response that is cut off is incomplete, and states the reason", async () => {
    const response = await ask("long");
    const events = await eventsOf("long");

    assert.deepEqual([response.status, response.incomplete_details], ["incomplete", { reason: "max_output_tokens" }]);
    assert.equal(response.output[0]?.type === "message" && response.output[0].status, "incomplete");
    assert.deepEqual(await client.responses.retrieve(response.id), response);
    assert.equal(events.at(-1)?.type, "response.incomplete");
  });

  test("a failing model is 502, in a stream response.failed, and the response records it", async () => {
    const { status } = await rejection(OpenAI.APIError, ask("mock-status-400"));
    const events = await eventsOf("mock-truncated");

    assert.equal(status, 502);
    const last = events.at(-1);
    assert.ok(last?.type === "response.failed", last?.type);
    assert.equal(last.response.error?.code, "server_error");
    const again = await client.responses.retrieve(last.response.id);
    assert.deepEqual([again.status, again.output], ["failed", last.response.output]);
  });

  test("cancel stops a response and keeps its text; a completed one is unchanged", async () => {
    const stream = await client.responses.create({ model: "never", input: "hi", stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    let cancelled: OpenAI.Responses.Response | null = null;
    for await (const event of stream) {
      events.push(event);
      if (event.type === "response.output_text.delta" && cancelled === null && events[0]?.type === "response.created")
        cancelled = await client.responses.cancel(events[0].response.id);
    }
    const over = await ask("plain");

    assert.ok(cancelled !== null);
    assert.deepEqual([cancelled.status, outline(cancelled)], ["cancelled", [["message", "So far"]]]);
    const last = events.at(-1);
    assert.ok(last?.type === "response.incomplete");
    assert.deepEqual([last.response.status, last.response.output], ["cancelled", cancelled.output]);
    const { output_text: _, ...untouched } = over;
    assert.deepEqual(await client.responses.cancel(over.id), untouched);
    // Its conversation is free again.
    const next = await ask("plain", { previous_response_id: last.response.id });
    assert.equal(next.status, "completed");
  });

  test("a client that leaves a response alone can read it later", async () => {
    const { opened, open } = gate();
    mock.answer("held", says("Still", opened, " here."));
    const stream = await client.responses.create({ model: "held", input: "hi", stream: true });
    let id = "";
    for await (const event of stream) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") break;
    }
    stream.controller.abort();
    open();

    const response = await eventually("the response is over", async () => {
      const found = await client.responses.retrieve(id);
      return found.status === "in_progress" ? undefined : found;
    });
    assert.deepEqual([response.status, response.output_text], ["completed", "Still here."]);
  });

  test("deletion removes a response, and the last one removes the thread", async () => {
    const first = await ask("plain");
    const second = await ask("plain", { previous_response_id: first.id });
    const thread = `resp-${first.id.slice(5, 37)}`;
    const events = async () => (await server.get(`/chat/history/${thread}`, { key: keys.ann })).json.events.length;

    await client.responses.delete(first.id);
    const gone = await rejection(NotFoundError, client.responses.retrieve(first.id));
    const kept = await client.responses.retrieve(second.id);
    const whileKept = await events();
    const deleted = await server.request("DELETE", `/v1/responses/${second.id}`, { key: keys.ann });
    const twice = await rejection(NotFoundError, client.responses.delete(second.id));

    assert.equal(gone.code, "unknown_response");
    assert.equal(kept.output_text, "The answer.");
    assert.equal(whileKept, 4);
    assert.deepEqual(deleted.json, { id: second.id, object: "response", deleted: true });
    assert.equal(twice.status, 404);
    assert.equal(await events(), 0);
    await rejection(NotFoundError, ask("plain", { previous_response_id: second.id }));
  });

  test("a running response is not deleted", async () => {
    const { opened, open } = gate();
    mock.answer("held", says("Still", opened, " here."));
    const stream = await client.responses.create({ model: "held", input: "hi", stream: true });
    let refused: APIError | null = null;
    for await (const event of stream) {
      if (event.type !== "response.created") continue;
      refused = await rejection(ConflictError, client.responses.delete(event.response.id));
      open();
    }

    assert.match(refused?.code ?? "", /^run_in_progress/);
  });

  test("another tenant has no such response", async () => {
    const { id } = await ask("plain");
    const bob = clientOf(keys.bob);

    await rejection(NotFoundError, bob.responses.retrieve(id));
    await rejection(NotFoundError, bob.responses.cancel(id));
    await rejection(NotFoundError, bob.responses.delete(id));
    await rejection(NotFoundError, bob.responses.create({ model: "plain", input: "hi", previous_response_id: id }));

    assert.equal((await client.responses.retrieve(id)).status, "completed");
  });

  test("an id names a response only if a response starts there", async () => {
    const { id } = await ask("plain");
    const chat = {
      manifest: "plain",
      thread_id: `resp-${"c".repeat(32)}`,
      messages: [{ role: "user", content: "hi" }],
    };
    await server.post("/chat", chat, { key: keys.ann });

    for (const other of [
      `${id.slice(0, -1)}1`,
      `${id.slice(0, -1)}2`,
      `${id.slice(0, 37)}ffffffffffffffff`,
      `resp_${"c".repeat(32)}${"0".repeat(16)}`,
      "resp_1",
      id.toUpperCase(),
    ])
      await rejection(NotFoundError, client.responses.retrieve(other));
  });

  test("a parameter that changes the answer and is unsupported is 400 with its name", async () => {
    const { id } = await ask("plain");
    for (const [param, fields] of [
      ["background", { background: true, store: false }],
      ["tools.0.type", { tools: [{ type: "web_search" }] }],
      ["tool_choice", { tool_choice: { type: "web_search_preview" } }],
      ["text.format", { text: { format: { type: "grammar" } as never } }],
      ["conversation", { conversation: "conv_1" }],
      ["prompt", { prompt: { id: "pmpt_1" } }],
      ["max_tool_calls", { max_tool_calls: 1 }],
      ["top_logprobs", { top_logprobs: 2 }],
      ["previous_response_id", { store: false, previous_response_id: id }],
      ["input.0.type", { input: [{ type: "computer_call_output" } as never] }],
      ["input.0.content.0.type", { input: [{ role: "user", content: [{ type: "input_audio" }] }] }],
    ] as [string, Fields][]) {
      const error = await rejection(BadRequestError, ask("plain", fields));

      assert.deepEqual([error.param, error.code], [param, "unsupported_parameter"]);
    }
    const none: Fields = { tools: [], tool_choice: "auto", background: false, text: { format: { type: "text" } } };
    assert.equal((await ask("plain", { ...none, include: [], user: "u1", truncation: "auto" })).status, "completed");
    const streamed = await server.get(`/v1/responses/${id}?stream=true`, { key: keys.ann });
    assert.deepEqual([streamed.status, streamed.json.error.param], [400, "stream"]);
  });

  test("a field that does not fit is 400 and named", async () => {
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    for (const [param, fields] of [
      ["input", { input: 7 }],
      ["input", { input: [] }],
      ["input.0", { input: ["hi"] }],
      ["input.0.role", { input: [{ role: "tool", content: "hi" }] }],
      ["input.0.content", { input: [{ role: "user" }] }],
      ["input.0.content.0", { input: [{ role: "user", content: ["hi"] }] }],
      ["input.0.content.0.text", { input: [{ role: "user", content: [{ type: "input_text" }] }] }],
      ["input.0.arguments", { input: [{ ...call, arguments: "{" }] }],
      ["input.0.call_id", { input: [{ ...call, call_id: "" }] }],
      ["input.0.output", { input: [{ type: "function_call_output", call_id: "c" }] }],
      ["metadata.a", { metadata: { a: 1 } }],
      ["max_output_tokens", { max_output_tokens: 0 }],
      ["temperature", { temperature: 3 }],
      ["store", { store: "no" }],
    ] as [string, object][]) {
      const error = await rejection(BadRequestError, ask("plain", fields as Fields));

      assert.equal(error.param, param, JSON.stringify(fields));
    }
    await rejection(NotFoundError, ask("nobody"));
    await rejection(NotFoundError, ask("plain", { previous_response_id: "resp_1" }));
    assert.equal((await rejection(BadRequestError, ask("plain", { input: "" }))).code, "messages_or_template_required");
  });

  test("the items of an input can be read again, in pages and in either order", async () => {
    const image_url = `data:image/gif;base64,${gif.toString("base64")}`;
    const tool = { type: "function", name: "f", parameters: null, strict: null } as const;
    const first = await ask("sees", {
      tools: [tool],
      input: [
        { role: "developer", content: "Be brief." },
        { role: "user", content: "Earlier?" },
        { role: "assistant", content: "Yes." },
        { type: "function_call", call_id: "c1", name: "f", arguments: '{"a":1}' },
        { type: "function_call_output", call_id: "c1", output: "18" },
        {
          role: "user",
          content: [
            { type: "input_text", text: "And this?" },
            { type: "input_image", image_url, detail: "low" },
          ],
        },
      ],
    });
    const next = await ask("plain", { input: "go on", previous_response_id: first.id });
    const failed = await rejection(APIError, ask("mock-status-400", { input: "fails", previous_response_id: next.id }));
    const read = (id: string, query: OpenAI.Responses.InputItemListParams = {}) =>
      Array.fromAsync(client.responses.inputItems.list(id, query));
    const brief = (items: readonly object[]) =>
      items.map((item) => {
        const { type, role, content, call_id, output, arguments: args } = item as Record<string, never>;
        return [type, role ?? call_id, content ?? output ?? args];
      });
    const text = (type: string, words: string) => [{ type, text: words }];

    const inOrder = await read(first.id, { order: "asc" });
    const reversed = await read(first.id, { limit: 2 });
    const { data, first_id, last_id, has_more } = (
      await server.get(`/v1/responses/${first.id}/input_items?limit=1&order=asc`, { key: keys.ann })
    ).json;

    assert.deepEqual(brief(inOrder), [
      ["message", "system", text("input_text", "Be brief.")],
      ["message", "user", text("input_text", "Earlier?")],
      ["message", "assistant", [{ ...text("output_text", "Yes.")[0], annotations: [], logprobs: [] }]],
      ["function_call", "c1", '{"a":1}'],
      ["function_call_output", "c1", "18"],
      [
        "message",
        "user",
        [...text("input_text", "And this?"), { type: "input_image", detail: "low", file_id: null, image_url }],
      ],
    ]);
    assert.deepEqual(reversed, inOrder.toReversed());
    assert.deepEqual([data, first_id, last_id, has_more], [[inOrder[0]], inOrder[0]?.id, inOrder[0]?.id, true]);
    assert.deepEqual(brief(await read(next.id)), [["message", "user", text("input_text", "go on")]]);
    assert.equal(new Set(inOrder.map(({ id }) => id)).size, 6);
    assert.equal(failed.status, 502);
    await rejection(NotFoundError, read("resp_1"));
    await rejection(NotFoundError, Array.fromAsync(clientOf(keys.bob).responses.inputItems.list(first.id)));
    const odd = await rejection(BadRequestError, read(first.id, { after: "msg_1" }));
    assert.equal(odd.code, "invalid_cursor");
  });

  test("a body that is no object is refused as a whole", async () => {
    for (const path of ["/v1/responses", "/v1/chat/completions"]) {
      const { status, json } = await server.post(path, [], { key: keys.ann });

      assert.deepEqual(
        [status, json.error.message, json.error.param, json.error.code],
        [400, "body must be object", null, "invalid_request"],
      );
    }
  });
});

/** The events of an item with one part in this number of deltas. */
function added(what: string, deltas: number): string[] {
  return [
    "response.output_item.added",
    "response.content_part.added",
    ...Array(deltas).fill(`response.${what}.delta`),
    `response.${what}.done`,
    "response.content_part.done",
    "response.output_item.done",
  ];
}
