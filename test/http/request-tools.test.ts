// Tools in a request of POST /v1/chat/completions, with the official client (decision 95: their calls go back to the
// client).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { BadRequestError } from "openai";
import { calls, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["weather", "mixed", "both", "plain", "gated", "forced", "endless", "twice", "garbled", "planner"];
const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["*"] },
  low: { scopes: ["chat:write", "chat:read"] },
  bob: { tenant_id: "globex", scopes: ["*"] },
});

const as = { key: keys.ann };

type Tool = OpenAI.Chat.Completions.ChatCompletionFunctionTool;
type Messages = OpenAI.Chat.Completions.ChatCompletionMessageParam[];

const tool = (name: string, more: object = {}): Tool => ({
  type: "function",
  function: {
    name,
    description: `Does ${name}.`,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    ...more,
  },
});
const weather = tool("get_weather");
const city = { city: "Riga" };

describe("tools of a request", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(models.map((id) => [id, { model: { id }, tools: ["calculator"] }])),
        planned: { model: { id: "planner" }, pattern: "plan_execute" },
        bare: { model: { id: "weather" } },
        short: { model: { id: "mixed" }, tools: ["calculator"], recursion_limit: 1 },
        limited: { model: { id: "twice" }, limits: { max_tool_calls: 1 } },
        guarded: {
          model: { id: "weather" },
          policies: [{ id: "weather-only", required_scopes: ["weather:read"], tools: ["get_*"] }],
        },
        watched: { model: { id: "gated" }, approvals: [{ id: "ask", tools: ["get_*"] }], tools: ["calculator"] },
      },
      env: { ...keyed, SVC_CHAT_SCOPES: "strict" },
    }));
    mock.answer("planner", ({ body }) => {
      const isPlan = JSON.stringify(body.messages).includes("You plan the work");
      if (isPlan) return { text: '{"subtasks":[{"title":"Look","task":"Look outside."}]}' };
      return { text: "Let me look.", ...calls(["get_weather", city]) };
    });
    mock.answer("weather", untilResult({ text: "Let me look.", ...calls(["get_weather", city]) }, "Sunny."));
    mock.answer(
      "mixed",
      untilResult(calls(["get_weather", city], ["calculator", { expression: "6*7" }]), "Sunny, and 42."),
    );
    mock.answer("both", untilResult(calls(["get_weather", city], ["get_time", city]), "Done."));
    mock.answer("twice", untilResult(calls(["get_weather", city], ["get_weather", city]), "Once."));
    mock.answer("gated", untilResult(calls(["get_weather", city], ["calculator", { expression: "1+1" }]), "Gated."));
    mock.answer("forced", untilResult(calls(["calculator", { expression: "1+1" }]), "Two."));
    mock.answer("garbled", untilResult(calls(["get_weather", "{broken"]), "Sorry."));
    mock.answer("plain", { text: "Plain." });
    client = clientOf(keys.ann);
  });

  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  const ask = (model: string, messages: Messages | string, fields: object = {}, by = client) =>
    by.chat.completions.create({
      model,
      tools: [weather],
      messages: typeof messages === "string" ? [{ role: "user", content: messages }] : messages,
      ...fields,
    });
  const last = (model: string) => mock.requests.filter((request) => request.model === model).at(-1);
  const transcript = async (thread: string) => {
    const { json } = await server.get(`/chat/sessions/${thread}`, as);
    return json.transcript as {
      kind: string;
      role: string;
      content: string;
      toolCallId?: string;
      tool_calls?: { id: string; name: string }[];
    }[];
  };
  const handed = ({ choices: [choice] }: OpenAI.Chat.Completions.ChatCompletion) =>
    (choice?.message.tool_calls ?? []) as OpenAI.Chat.Completions.ChatCompletionMessageFunctionToolCall[];
  const refusal = async (call: Promise<unknown>, what: object = {}) => {
    const error = await call.then(
      () => assert.fail(`not refused: ${JSON.stringify(what).slice(0, 99)}`),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof BadRequestError, String(error));
    return [error.code, error.param];
  };

  test("text of a subtask with a client call is not in the answer, streamed or whole", async () => {
    const asked = { model: "planned", messages: [{ role: "user" as const, content: "hi" }], tools: [weather] };

    const whole = await client.chat.completions.create(asked);
    const chunks = await Array.fromAsync(await client.chat.completions.create({ ...asked, stream: true }));

    const [choice] = whole.choices;
    assert.deepEqual([choice?.message.content, choice?.message.tool_calls?.length], [null, 1]);
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), "");
  });

  test("CHAT-041 a call ends the answer, and a stateless client sends the result next", async () => {
    const first = await ask("weather", "How is Riga?");
    const [call] = handed(first);
    const before = last("weather");
    const second = await ask("weather", [
      { role: "user", content: "How is Riga?" },
      first.choices[0]?.message as Messages[number],
      { role: "tool", tool_call_id: call?.id ?? "", content: "18 degrees" },
    ]);

    assert.equal(first.choices[0]?.finish_reason, "tool_calls");
    assert.equal(first.choices[0]?.message.content, "Let me look.");
    assert.match(call?.id ?? "", /^call_[0-9a-f]{32}$/);
    assert.deepEqual([call?.function.name, call?.function.arguments], ["get_weather", '{"city":"Riga"}']);
    const offered = before?.body.tools as Tool[];
    assert.deepEqual(
      offered.map(({ function: { name } }) => name),
      ["calculator", "get_weather"],
    );
    assert.deepEqual(offered[1], weather);
    assert.deepEqual([second.choices[0]?.finish_reason, second.choices[0]?.message.content], ["stop", "Sunny."]);
    assert.deepEqual(
      shown(last("weather")).map(({ role, content }) => [role, content]),
      [
        ["user", "How is Riga?"],
        ["assistant", "Let me look."],
        ["tool", "18 degrees"],
      ],
    );
  });

  test("STREAM-047 a stream sends the call in one chunk with its index, then finish_reason", async () => {
    const stream = await client.chat.completions.create({
      model: "both",
      messages: [{ role: "user", content: "go" }],
      tools: [weather, tool("get_time")],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await Array.fromAsync(stream);
    const runner = client.chat.completions.stream({
      model: "both",
      messages: [{ role: "user", content: "go" }],
      tools: [weather, tool("get_time")],
    });

    const deltas = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []));
    assert.deepEqual(
      deltas.map(({ index, type, function: f }) => [index, type, f?.name, f?.arguments]),
      [
        [0, "function", "get_weather", '{"city":"Riga"}'],
        [1, "function", "get_time", '{"city":"Riga"}'],
      ],
    );
    const reasons = chunks.flatMap(({ choices }) => choices.map(({ finish_reason }) => finish_reason));
    assert.deepEqual([reasons.at(-1), reasons.filter((reason) => reason !== null).length], ["tool_calls", 1]);
    assert.ok(chunks.at(-1)?.usage);
    assert.equal((await runner.finalChatCompletion()).choices[0]?.message.tool_calls?.length, 2);
  });

  test("CHAT-040 on a thread the client sends only the result, after the manifest's tools ran", async () => {
    const first = await ask("mixed", "Both, please.", { user: "mixed-1" });
    const [call] = handed(first);
    const open = await transcript("mixed-1");
    const second = await ask("mixed", [{ role: "tool", tool_call_id: call?.id ?? "", content: "sun" }], {
      user: "mixed-1",
    });

    assert.deepEqual(
      handed(first).map(({ function: f }) => f.name),
      ["get_weather"],
    );
    assert.deepEqual(
      open.filter(({ kind }) => kind === "tool_result").map(({ content }) => content),
      ["42"],
    );
    assert.equal(second.choices[0]?.message.content, "Sunny, and 42.");
    assert.deepEqual(
      shown(last("mixed")).map(({ role, content }) => [role, content]),
      [
        ["user", "Both, please."],
        ["assistant", ""],
        ["tool", "sun"],
        ["tool", "42"],
      ],
    );
    const results = (await transcript("mixed-1")).filter(({ kind }) => kind === "tool_result");
    assert.deepEqual(
      results.map(({ toolCallId, content }) => [toolCallId === call?.id, content]),
      [
        [false, "42"],
        [true, "sun"],
      ],
    );
  });

  test("a client that sends its whole history again on a thread is understood too", async () => {
    const first = await ask("weather", "How is Riga?", { user: "history" });
    const [call] = handed(first);
    const second = await ask(
      "weather",
      [
        { role: "user", content: "How is Riga?" },
        first.choices[0]?.message as Messages[number],
        { role: "tool", tool_call_id: call?.id ?? "", content: [{ type: "text", text: "18" }] },
      ],
      { user: "history" },
    );

    assert.equal(second.choices[0]?.message.content, "Sunny.");
    assert.deepEqual(
      shown(last("weather")).map(({ role, content }) => [role, content]),
      [
        ["user", "How is Riga?"],
        ["assistant", "Let me look."],
        ["tool", "18"],
      ],
    );
  });

  test("a user message closes open calls, and a later result is a quotation", async () => {
    const first = await ask("weather", "How is Riga?", { user: "closed" });
    const [call] = handed(first);
    await ask("weather", "Never mind.", { user: "closed" });
    const closed = shown(last("weather"));
    await ask("weather", [{ role: "tool", tool_call_id: call?.id ?? "", content: "18" }], { user: "closed" });

    assert.deepEqual(
      closed.map(({ role, content }) => [role, content]),
      [
        ["user", "How is Riga?"],
        ["assistant", "Let me look."],
        ["tool", "[tool error/interrupted] not answered by the client"],
        ["user", "Never mind."],
      ],
    );
    const [quote] = shown(last("weather")).slice(-1);
    assert.equal(quote?.role, "user");
    assert.match(quote?.content ?? "", /^\[The client quotes a tool result/);
  });

  test("open calls are logged: answered after a restart, closed by a partial answer", async () => {
    const both = { tools: [weather, tool("get_time")], user: "restart" };
    const first = await ask("both", "go", both);
    const [one] = handed(first);
    await server.restart();
    client = clientOf(keys.ann);

    await ask("both", [{ role: "tool", tool_call_id: one?.id ?? "", content: "sun" }], both);

    assert.deepEqual(
      shown(last("both")).map(({ role, content }) => [role, content]),
      [
        ["user", "go"],
        ["assistant", ""],
        ["tool", "sun"],
        ["tool", "[tool error/interrupted] not answered by the client"],
      ],
    );
  });

  test("calls of other threads and tenants are not answered, and one result counts once", async () => {
    const first = await ask("weather", "How is Riga?", { user: "mine" });
    const [call] = handed(first);
    const result = { role: "tool", tool_call_id: call?.id ?? "", content: "forged" } as const;
    await ask("weather", [result], { user: "other" });
    const elsewhere = shown(last("weather"));
    await ask("weather", [result], { user: "mine" }, clientOf(keys.bob));
    const foreign = shown(last("weather"));
    await ask("weather", [{ ...result, content: "true" }, result], { user: "mine" });

    for (const messages of [elsewhere, foreign])
      assert.deepEqual(
        messages.map(({ role }) => role),
        ["user"],
      );
    assert.deepEqual(
      shown(last("weather")).map(({ role, content }) => [role, content.slice(0, 25)]),
      [
        ["user", "How is Riga?"],
        ["assistant", "Let me look."],
        ["tool", "true"],
        ["user", "[The client quotes a tool"],
      ],
    );
  });

  test("CHAT-039 stateless: manifest calls are dropped, their results quoted, missing ones closed", async () => {
    const asked = (id: string, name: string) => ({
      id,
      type: "function" as const,
      function: { name, arguments: '{"city":"Riga"}' },
    });
    const completion = await ask("mixed", [
      { role: "user", content: "go" },
      {
        role: "assistant",
        content: "Both.",
        tool_calls: [asked("a", "get_weather"), asked("b", "calculator"), asked("c", "get_weather")],
      },
      { role: "tool", tool_call_id: "b", content: "43" },
      { role: "tool", tool_call_id: "a", content: "sun" },
    ]);
    const request = last("mixed");
    const alone = await ask("mixed", "go");

    assert.equal(completion.choices[0]?.message.content, "Sunny, and 42.");
    assert.deepEqual(
      shown(request).map(({ role, content }) => [role, content.split("\n").at(-1)]),
      [
        ["user", "go"],
        ["assistant", "Both."],
        ["tool", "sun"],
        ["tool", "[tool error/interrupted] not answered by the client"],
        ["user", "43"],
      ],
    );
    const [, assistant] = shown(request) as unknown as { tool_calls: { id: string }[] }[];
    assert.deepEqual(
      assistant?.tool_calls.map(({ id }) => id),
      ["a", "c"],
    );
    assert.deepEqual(
      handed(alone).map(({ function: f }) => f.name),
      ["get_weather"],
    );
  });

  test("policies and limits apply by name, and the model sees their refusals", async () => {
    const allowed = await ask("guarded", "go");
    const denied = await ask("guarded", "go", {}, clientOf(keys.low));
    const request = last("weather");
    const once = await ask("limited", "go");

    assert.equal(handed(allowed).length, 1);
    assert.deepEqual([denied.choices[0]?.finish_reason, denied.choices[0]?.message.content], ["stop", "Sunny."]);
    assert.match(shown(request).at(-1)?.content ?? "", /^denied by policy: weather-only requires scope weather:read/);
    assert.equal(handed(once).length, 1);
    const audit = await eventually("a row", async () => {
      const rows = await server.get("/audit?event_type=tool_call&limit=100", as);
      const found = (rows.json.items as { payload: { tool: string; handed?: string } }[]).filter(
        ({ payload }) => payload.tool === "get_weather",
      );
      return found.length > 0 ? found : undefined;
    });
    assert.ok(audit.every(({ payload }) => payload.handed === "client"));
  });

  test("a gated call waits for a person, and is handed over as approved", async () => {
    const answer = ask("watched", "go", { user: "gate" });
    const [row] = await eventually("a row", async () => {
      const { json } = await server.get("/approvals?thread_id=gate", as);
      return json.items?.length > 0 ? (json.items as { id: string; status: string }[]) : undefined;
    });
    await server.post(`/approvals/${row?.id}/decide`, { decision: "approved", edited_args: { city: "Oslo" } }, as);
    const first = await answer;
    const [call] = handed(first);
    const second = await ask(
      "watched",
      [{ role: "tool", tool_call_id: call?.id ?? "", content: '{"approved": true}' }],
      { user: "gate" },
    );

    assert.deepEqual(
      handed(first).map(({ function: f }) => [f.name, f.arguments]),
      [["get_weather", '{"city":"Oslo"}']],
    );
    assert.equal(second.choices[0]?.message.content, "Gated.");
    assert.deepEqual(
      shown(last("gated"))
        .filter(({ role }) => role === "tool")
        .map(({ content }) => content),
      ['[run with arguments that a person has edited: {"city":"Oslo"}]\n{"approved": true}', "2"],
    );
  });

  test("tool_choice and parallel_tool_calls go to the model, a forced call once", async () => {
    const named = { type: "function", function: { name: "calculator" } } as const;
    await ask("forced", "go", { tool_choice: named, parallel_tool_calls: false });
    const forced = mock.requests.filter(({ model }) => model === "forced").map(({ body }) => body);
    await ask("plain", "go", { tool_choice: "none" });
    const none = last("plain")?.body;
    await ask("plain", "go", { tool_choice: "required", tools: undefined });
    const required = last("plain")?.body;
    await ask("plain", "go", { tool_choice: "auto", parallel_tool_calls: true, tools: [] });

    assert.deepEqual(
      forced.map(({ tool_choice, parallel_tool_calls }) => [tool_choice, parallel_tool_calls]),
      [
        [named, false],
        [undefined, false],
      ],
    );
    assert.equal(none?.tool_choice, "none");
    assert.equal(required?.tool_choice, "required");
    assert.deepEqual(
      [last("plain")?.body.tool_choice, last("plain")?.body.parallel_tool_calls],
      [undefined, undefined],
    );
  });

  test("the last step still hands over the client's calls and skips the server's", async () => {
    const completion = await ask("short", "go", { user: "short" });

    assert.equal(completion.choices[0]?.finish_reason, "tool_calls");
    assert.equal(handed(completion).length, 1);
    const results = (await transcript("short")).filter(({ kind }) => kind === "tool_result");
    assert.deepEqual(
      results.map(({ content }) => content),
      ["[tool error/interrupted] not run: the run is out of steps"],
    );
  });

  test("a call with an empty text as arguments has none, on both routes", async () => {
    const bare = { name: "get_time", parameters: { type: "object", properties: {} } };
    const called = { id: "call_1", type: "function" as const, function: { name: bare.name, arguments: "" } };
    const given = () => {
      const message = shown(last("plain")).find(({ role }) => role === "assistant");
      return (message as { tool_calls?: (typeof called)[] } | undefined)?.tool_calls?.map((call) => call.function);
    };

    await client.chat.completions.create({
      model: "plain",
      tools: [{ type: "function", function: bare }],
      messages: [
        { role: "user", content: "go" },
        { role: "assistant", content: null, tool_calls: [called] },
        { role: "tool", tool_call_id: "call_1", content: "noon" },
      ],
    });
    const completed = given();
    await client.responses.create({
      model: "plain",
      tools: [{ type: "function", ...bare, strict: false }],
      input: [
        { role: "user", content: "go" },
        { type: "function_call", call_id: "call_1", name: bare.name, arguments: "" },
        { type: "function_call_output", call_id: "call_1", output: "noon" },
      ],
    });

    assert.deepEqual(
      [completed, given()],
      [[{ name: bare.name, arguments: "{}" }], [{ name: bare.name, arguments: "{}" }]],
    );
  });

  test("arguments that are not JSON never leave the server", async () => {
    const completion = await ask("garbled", "go");

    assert.equal(completion.choices[0]?.message.content, "Sorry.");
    assert.match(shown(last("garbled")).at(-1)?.content ?? "", /^\[tool error\/invalid_arguments\]/);
  });

  test("unsupported tools are 400 and named, without a model call", async () => {
    const asked = mock.requests.length;
    const bomb = Object.fromEntries(
      Array.from({ length: 300 }, (_, at) => [`p${at}`, { pattern: "(a+)+$".repeat(200) }]),
    );
    const refused: [object, (string | null)[]][] = [
      [{ tools: [tool("calculator")] }, ["invalid_request", "tools.0"]],
      [{ tools: [weather, weather] }, ["invalid_request", "tools.1.function.name"]],
      [{ tools: [tool("get\u202eweather")] }, ["invalid_request", "tools.0.function.name"]],
      [{ tools: [tool("a b")] }, ["invalid_request", "tools.0.function.name"]],
      [{ tools: [tool("a".repeat(65))] }, ["invalid_request", "tools.0.function.name"]],
      [{ tools: Array.from({ length: 129 }, (_, at) => tool(`t${at}`)) }, ["invalid_request", "tools"]],
      [{ tools: [tool("big", { parameters: { type: "object", properties: bomb } })] }, ["invalid_request", "tools"]],
      [{ tools: [tool("listed", { parameters: ["city"] })] }, ["invalid_request", "tools.0.function.parameters"]],
      [
        { tools: [tool("odd", { parameters: { type: "string" } })] },
        ["invalid_request", "tools.0.function.parameters.type"],
      ],
      [{ tools: [tool("odd", { description: 7 })] }, ["invalid_request", "tools.0.function.description"]],
      [{ tools: [tool("odd", { strict: "yes" })] }, ["invalid_request", "tools.0.function.strict"]],
      [{ tools: [null] }, ["invalid_request", "tools.0"]],
      [{ tools: [{ type: "function" }] }, ["invalid_request", "tools.0.function"]],
      [{ tools: [{ type: "custom", custom: { name: "x" } }] }, ["unsupported_parameter", "tools.0.type"]],
      [{ tools: "all" }, ["invalid_request", "tools"]],
      [{ tool_choice: "always" }, ["invalid_request", "tool_choice"]],
      [{ tool_choice: { type: "function", function: { name: "gone" } } }, ["invalid_request", "tool_choice"]],
      [{ tool_choice: { type: "allowed_tools", allowed_tools: {} } }, ["unsupported_parameter", "tool_choice"]],
      [{ tool_choice: "required", tools: [], model: "bare" }, ["invalid_request", "tool_choice"]],
      [{ parallel_tool_calls: "no" }, ["invalid_request", "parallel_tool_calls"]],
      [{ function_call: "auto" }, ["unsupported_parameter", "function_call"]],
    ];
    for (const [fields, expected] of refused)
      assert.deepEqual(
        await refusal(ask("plain", "go", fields), fields),
        expected,
        JSON.stringify(fields).slice(0, 99),
      );

    const call = (fields: object) => ({ id: "a", type: "function", function: { name: "get_weather" }, ...fields });
    const garbled: [object[], string][] = [
      [[call({ id: 7 })], "messages.1.tool_calls"],
      [[call({}), call({})], "messages.1.tool_calls"],
      [[call({ id: "a".repeat(257) })], "messages.1.tool_calls"],
      [[call({ function: { name: "get_weather", arguments: "{" } })], "messages.1.tool_calls"],
    ];
    for (const [tool_calls, param] of garbled) {
      const messages = [{ role: "user", content: "go" }, { role: "assistant", tool_calls } as never];
      const [code, place] = await refusal(ask("plain", messages as Messages));
      assert.deepEqual([code, place?.startsWith(param)], ["invalid_request", true]);
    }
    assert.equal(mock.requests.length, asked);
  });

  test("a client's schema is never compiled", async () => {
    const parameters = {
      type: "object",
      properties: { city: { type: "string", pattern: "(a+)+$" }, all: { $ref: "#" } },
      allOf: [{ $ref: "https://example.com/gone" }, { $ref: "#/nowhere" }],
      required: "not a list",
    };
    const completion = await ask("weather", "go", { tools: [tool("get_weather", { parameters })] });

    assert.equal(handed(completion).length, 1);
  });

  test("POST /chat can continue a conversation that waits for its client", async () => {
    await ask("weather", "How is Riga?", { user: "native" });
    const answer = await server.post("/chat", turn("plain", "Hello?", { thread_id: "native" }), as);

    assert.equal(answer.status, 200);
    assert.deepEqual(
      shown(last("plain")).map(({ role }) => role),
      ["user", "assistant", "tool", "user"],
    );
  });
});

/** Calls the tools until the prompt contains a result or a refusal, and then answers the text. */
function untilResult(asks: ReturnType<typeof calls>, text: string): Behaviour {
  return ({ body }) => {
    const messages = body.messages as readonly { role: string }[];
    return messages.some(({ role }) => role === "tool") ? { text } : asks;
  };
}
