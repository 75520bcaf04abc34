// Tools in a request of POST /v1/responses, with the official client (decision 95: their calls go back to the client).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { APIError, BadRequestError, NotFoundError } from "openai";
import { calls, shown, startChat } from "../../support/chat.ts";
import type { Behaviour } from "../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const limits = { max_input_tokens: 9_000_000 };
const tenfold = { name: "tenfold", body: "$@".repeat(10) };
const models = ["weather", "mixed", "both", "wordy", "recalls"];
const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["*"] },
  bob: { tenant_id: "globex", scopes: ["*"] },
});

type Response = OpenAI.Responses.Response;
type Fields = Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>;

const tool = (name: string): OpenAI.Responses.FunctionTool => ({
  type: "function",
  name,
  description: `Does ${name}.`,
  parameters: { type: "object", properties: { city: { type: "string" } } },
  strict: false,
});
const tools = [tool("get_weather"), tool("get_time")];

describe("tools of a response", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: Object.fromEntries(
        models.map((id) => [id, { model: { id }, tools: ["calculator"], limits, prompts: [tenfold] }]),
      ),
      env: keyed,
    }));
    const city = { city: "Riga" };
    mock.answer("weather", untilResult({ text: "Let me look.", ...calls(["get_weather", city]) }, "Sunny."));
    mock.answer("both", untilResult(calls(["get_weather", city], ["get_time", city]), "Noon."));
    mock.answer("mixed", untilResult(calls(["get_weather", city], ["calculator", { expression: "6*7" }]), "42."));
    mock.answer("wordy", { text: ["word ".repeat(18_000)] });
    mock.answer("recalls", ({ body }) => ({ text: `saw ${(body.messages as unknown[]).length}` }));
    client = clientOf(keys.ann);
  });

  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  const ask = (model: string, fields: Fields = {}, by = client) =>
    by.responses.create({ model, input: "How is Riga?", tools, ...fields });
  const callsOf = ({ output }: Response) => output.filter((item) => item.type === "function_call");
  const outputOf = (response: Response, output = "18", at = 0) => ({
    type: "function_call_output" as const,
    call_id: callsOf(response)[at]?.call_id ?? "",
    output,
  });
  const seen = () => shown(mock.requests.at(-1)).map(({ role, content }) => [role, content.split("\n").at(-1)]);
  const wholeTurn = [
    ["user", "How is Riga?"],
    ["assistant", "Let me look."],
    ["tool", "18"],
  ];

  test("a call is an output item, reads back unchanged, and its result continues it", async () => {
    const first = await ask("weather", {
      parallel_tool_calls: false,
      tool_choice: { type: "function", name: "get_weather" },
    });
    const told = mock.requests.at(-1)?.body;
    const again = await client.responses.retrieve(first.id);
    const second = await ask("weather", { previous_response_id: first.id, input: [outputOf(first)] });

    assert.deepEqual(
      first.output.map(({ type }) => type),
      ["message", "function_call"],
    );
    const [call] = callsOf(first);
    assert.deepEqual(
      [call?.id, call?.name, call?.arguments, call?.status],
      [`fc_${first.id.slice(5)}_1`, "get_weather", '{"city":"Riga"}', "completed"],
    );
    assert.deepEqual(again, first);
    assert.deepEqual([first.status, first.parallel_tool_calls], ["completed", false]);
    assert.deepEqual(first.tools, tools);
    assert.deepEqual(first.tool_choice, { type: "function", name: "get_weather" });
    assert.deepEqual(told?.tool_choice, { type: "function", function: { name: "get_weather" } });
    assert.equal(second.output_text, "Sunny.");
    assert.deepEqual(seen(), wholeTurn);
  });

  test("a stream sends the call as events that the client's helper assembles", async () => {
    const events = await Array.fromAsync(
      await client.responses.create({ model: "both", input: "go", tools, stream: true }),
    );
    const helped = await client.responses.stream({ model: "both", input: "go", tools }).finalResponse();

    const ofCall = [
      "response.output_item.added",
      "response.function_call_arguments.delta",
      "response.function_call_arguments.done",
      "response.output_item.done",
    ];
    assert.deepEqual(
      events.map(({ type }) => type),
      ["response.created", "response.in_progress", ...ofCall, ...ofCall, "response.completed"],
    );
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
    );
    const last = events.at(-1);
    assert.ok(last?.type === "response.completed");
    const { output_text: _, ...retrieved } = await client.responses.retrieve(last.response.id);
    assert.deepEqual(retrieved, last.response);
    assert.deepEqual(
      callsOf(helped).map(({ name, arguments: text }) => [name, text]),
      [
        ["get_weather", '{"city":"Riga"}'],
        ["get_time", '{"city":"Riga"}'],
      ],
    );
  });

  test("calls of one step stay one step, whatever items separate them in the input", async () => {
    const call = (call_id: string, name: string) =>
      ({ type: "function_call", call_id, name, arguments: '{"city":"Riga"}' }) as const;
    const output = (call_id: string) => ({ type: "function_call_output", call_id, output: call_id }) as const;
    const thought = { type: "reasoning" as const, id: "rs_1", summary: [] };
    const said = { role: "assistant", content: "Let me look." } as const;
    const between = [[thought], [said], [thought, said, thought]] as const;

    for (const items of between)
      await ask("both", {
        store: false,
        input: [
          { role: "user", content: "How is Riga?" },
          ...[thought, call("one", "get_weather"), ...items, call("two", "get_time"), output("two"), output("one")],
        ],
      });

    for (const [at, { body }] of mock.requests.slice(-between.length).entries()) {
      const messages = (body.messages as { role: string; content: string; tool_calls?: object[] }[]).slice(-4);
      assert.deepEqual(
        messages.map(({ role, content, tool_calls }) => [role, content || "", tool_calls?.length ?? 0]),
        [
          ["user", "How is Riga?", 0],
          ["assistant", at === 0 ? "" : "Let me look.", 2],
          ["tool", "one", 0],
          ["tool", "two", 0],
        ],
      );
    }
  });

  test("repeating the whole history is equivalent, stored or not", async () => {
    for (const store of [false, true]) {
      const first = await ask("weather", { store });
      const second = await ask("weather", {
        store,
        input: [{ role: "user", content: "How is Riga?" }, ...(first.output as never[]), outputOf(first)],
      });

      assert.equal(second.output_text, "Sunny.", String(store));
      assert.deepEqual(seen(), wholeTurn);
    }
  });

  test("a call with its result continues without a user message; a lone call does not", async () => {
    const call = { type: "function_call", call_id: "a", name: "get_weather", arguments: "{}" } as const;
    const result = { type: "function_call_output", call_id: "a", output: "18" } as const;
    for (const store of [false, true]) {
      const response = await ask("weather", { store, input: [call, result] });

      assert.equal(response.output_text, "Sunny.", String(store));
      assert.deepEqual(seen(), [
        ["assistant", ""],
        ["tool", "18"],
      ]);
    }
    const completion = await client.chat.completions.create({
      model: "weather",
      tools: [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }],
      messages: [
        {
          role: "assistant",
          tool_calls: [{ id: "a", type: "function", function: { name: "get_weather", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "a", content: "18" },
      ],
    });
    assert.equal(completion.choices[0]?.message.content, "Sunny.");
    await assert.rejects(
      ask("weather", { input: [call] }),
      (error) => error instanceof BadRequestError && error.code === "messages_or_template_required",
    );
  });

  test("parallel results may have any order, and calls of manifest tools are dropped", async () => {
    const call = (call_id: string, name: string) =>
      ({ type: "function_call", call_id, name, arguments: "{}" }) as const;
    const result = (call_id: string) => ({ type: "function_call_output", call_id, output: call_id }) as const;
    await ask("both", {
      store: false,
      input: [
        { role: "user", content: "go" },
        { type: "reasoning", id: "rs_1", summary: [] },
        call("a", "get_weather"),
        call("b", "calculator"),
        call("c", "get_time"),
        result("c"),
        result("b"),
        result("a"),
      ],
    });

    assert.deepEqual(seen(), [
      ["user", "go"],
      ["assistant", ""],
      ["tool", "a"],
      ["tool", "c"],
      ["user", "b"],
    ]);
  });

  test("an item that a reference names is looked up in the tenant", async () => {
    const first = await ask("weather");
    const references = first.output.map(({ id }) => ({ type: "item_reference" as const, id: id ?? "" }));
    const input = [{ role: "user" as const, content: "How is Riga?" }, ...references, outputOf(first)];
    const second = await ask("weather", { input });

    assert.equal(second.output_text, "Sunny.");
    assert.deepEqual(seen(), wholeTurn);
    await assert.rejects(ask("weather", { input }, clientOf(keys.bob)), NotFoundError);
    for (const id of ["msg_1", `${references[0]?.id}0`, (references[0]?.id ?? "").replace("msg_", "rs_")])
      await assert.rejects(
        ask("weather", { input: [{ type: "item_reference", id }] }),
        (error) => error instanceof BadRequestError && error.param === "input.0.id",
      );
  });

  test("references of one input count as much as the items that they name", async () => {
    const item = (await ask("wordy")).output.find(({ type }) => type === "message");
    const bytes = Buffer.byteLength(JSON.stringify(item));
    const reference = { type: "item_reference" as const, id: item?.id ?? "" };
    const fits = Math.floor((4 * 1024 * 1024) / (bytes + JSON.stringify(reference).length + 1)) - 1;
    const input = (count: number) => [{ role: "user" as const, content: "go" }, ...Array(count).fill(reference)];

    const most = await ask("recalls", { input: input(fits) });
    const command = { role: "user" as const, content: `/tenfold ${"x".repeat(50_000)}` };
    const alone = await ask("recalls", { input: [command] });
    const more = await Promise.allSettled(
      [input(fits + 2), input(9_000), [...input(fits - 1), command]].map((many) => ask("recalls", { input: many })),
    );

    assert.equal(most.output_text, `saw ${fits + 1}`);
    assert.equal(alone.output_text, "saw 1");
    assert.deepEqual(
      more.map((asked) => asked.status === "rejected" && asked.reason instanceof APIError && asked.reason.status),
      [413, 413, 413],
    );
  });

  test("a response can be continued several times, each from its open calls", async () => {
    const first = await ask("mixed");
    const answers = ["one", "two", "three"];
    const behind = await Promise.all(
      answers.map((output) =>
        ask("mixed", { previous_response_id: first.id, input: [outputOf(first, output)], metadata: { output } }),
      ),
    );

    assert.deepEqual(
      behind.map(({ output_text }) => output_text),
      ["42.", "42.", "42."],
    );
    const results = mock.requests
      .slice(-3)
      .map((request) => shown(request).filter(({ role }) => role === "tool"))
      .map((messages) => messages.map(({ content }) => content).sort());
    assert.deepEqual(results.sort(), answers.map((output) => ["42", output]).sort());
  });

  test("a result of another thread's call is quoted, and tenants see their own responses", async () => {
    const [mine, other] = [await ask("weather"), await ask("weather")];
    const foreign = ask("weather", { previous_response_id: mine.id, input: [outputOf(mine)] }, clientOf(keys.bob));
    await assert.rejects(foreign, NotFoundError);

    await ask("weather", { previous_response_id: mine.id, input: [outputOf(other)] });

    assert.deepEqual(seen(), [
      ["user", "How is Riga?"],
      ["assistant", "Let me look."],
      ["tool", "[tool error/interrupted] not answered by the client"],
      ["user", "18"],
    ]);
  });

  test("a refused continuation of an older response leaves no copy of its thread", async () => {
    const first = await ask("weather");
    await ask("weather", { previous_response_id: first.id, input: [outputOf(first)] });
    const count = async () => (await server.get("/chat/sessions?limit=100", { key: keys.ann })).json.items.length;
    const before = await count();

    await assert.rejects(
      ask("weather", { previous_response_id: first.id, tools: [tool("calculator")] }),
      BadRequestError,
    );

    assert.equal(await count(), before);
  });
});

/** Calls the tools until the prompt contains a result, and then answers the text. */
function untilResult(asks: ReturnType<typeof calls>, text: string): Behaviour {
  return ({ body }) => {
    const messages = body.messages as readonly { role: string }[];
    return messages.some(({ role }) => role === "tool") ? { text } : asks;
  };
}
