// POST /v1/chat/completions and GET /v1/models, through the official client and as raw HTTP.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  UnprocessableEntityError,
} from "openai";
import { calls, gate, inTurn, never, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const finishes = {
  "mock-finish-stop": "stop",
  "mock-finish-length": "length",
  "mock-finish-tool-calls": "stop",
  "mock-finish-content-filter": "content_filter",
  "mock-finish-stop-sequence": "stop",
  "mock-finish-pause-turn": "stop",
  "mock-finish-whatever": "stop",
} as const;
const models = [
  ...["plain", "counted", "tools", "no-steps", "held", "left", "mock-status-400", "mock-truncated", "mock-reasoning"],
  ...["mock-no-usage", "mock-usage-cached", "bounded", ...Object.keys(finishes)],
];
const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };
const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["chat:write"] },
  reader: { scopes: ["chat:read"] },
  none: { scopes: [] },
});

type Completion = OpenAI.Chat.Completions.ChatCompletionCreateParamsNonStreaming;

describe("the OpenAI surface", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    const agents = models.map((id) => [id, { model: { id }, tools: ["calculator"] }]);
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(agents),
        agent: {},
        bounded: { model: { id: "bounded", max_tokens: 100, temperature: 0.5 } },
        hasty: { model: { id: "no-steps" }, tools: ["calculator"], recursion_limit: 1 },
        greeter: {
          metadata: {
            description: "Greets.",
            greeting: { headline: "Hello!" },
            starters: [{ title: "Start", prompt: "Go" }],
          },
          spec: {
            prompts: [{ name: "greet", body: "Say hello to $1.", description: "Greets", argument_hint: "<name>" }],
          },
        },
        guarded: { auth: { inbound: { required_scopes: ["vault:open"] } } },
        broken: { model: { id: "gone" } },
        secretive: { model: { id: "secretive" } },
      },
      routes: { secretive: { provider: "groq", model: "x" } },
      providers: { groq: { api_key: "secret:NOT_THERE" } },
      env: { ...keyed, SVC_CHAT_SCOPES: "strict" },
    }));
    mock.answer("plain", { text: ["The", " answer", "."], usage });
    mock.answer("counted", ({ body }) => ({ text: `saw ${(body.messages as unknown[]).length}` }));
    mock.answer("tools", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    mock.answer("no-steps", calls(["calculator", { expression: "1+1" }]));
    mock.answer("bounded", { text: "Ok." });
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann });
  });

  const hi = [{ role: "user", content: "hi" }] as const;
  const ask = (model: string, fields: object = {}) =>
    client.chat.completions.create({ model, messages: [...hi], ...fields } as Completion);
  const post = (fields: object, key: string | null = keys.ann) =>
    server.post("/v1/chat/completions", { model: "plain", messages: hi, ...fields }, key === null ? {} : { key });
  /** The error of a rejected call; asserts its class. */
  async function rejection<E extends APIError>(kind: new (...args: never[]) => E, call: Promise<unknown>): Promise<E> {
    const error = await call.then(
      () => assert.fail("not rejected"),
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof kind, String(error));
    return error;
  }
  const historyOf = async (thread: string) => {
    const { json } = await server.get(`/chat/history/${thread}`, { key: keys.ann });
    return json.messages.map(({ role, content }: { role: string; content: string }) => [role, content]);
  };

  test("null fields are ignored, and an assistant's refusal counts as its text", async () => {
    const refused = [{ type: "refusal", refusal: "Not that." }];
    const messages = [
      { role: "user", content: "One", name: null, tool_call_id: null },
      { role: "assistant", content: null, refusal: "I will not.", tool_calls: null, function_call: null, audio: null },
      { role: "user", content: "Two" },
      { role: "assistant", content: refused, refusal: null, name: null },
      { role: "user", content: "Three" },
      { role: "assistant", content: "Said.", refusal: "not said" },
      { role: "user", content: "Four", refusal: "no assistant's" },
    ];
    const { status } = await post({ messages, stream_options: { include_usage: null }, user: null });

    assert.equal(status, 200);
    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ role, content }) => [role, content]),
      [
        ["user", "One"],
        ["assistant", "I will not."],
        ["user", "Two"],
        ["assistant", "Not that."],
        ["user", "Three"],
        ["assistant", "Said."],
        ["user", "Four"],
      ],
    );
    for (const name of [7, "n".repeat(129)])
      assert.equal((await post({ messages: [{ role: "user", content: "hi", name }] })).status, 400);
  });

  test("CHAT-039 a completion of the official client is a turn of the manifest named as model", async () => {
    const completion = await ask("plain");

    const { id, created, ...rest } = completion;
    assert.match(id, /^chatcmpl-[0-9a-f]{24}$/);
    assert.ok(created > 1_700_000_000 && created < 10_000_000_000, "seconds");
    assert.deepEqual(rest, {
      object: "chat.completion",
      model: "plain",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "The answer.", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: { ...usage, prompt_tokens_details: { cached_tokens: 0 } },
    });
  });

  test("CHAT-039 a stream of the official client is the same turn in chunks", async () => {
    const stream = await client.chat.completions.create({ model: "plain", messages: [...hi], stream: true });
    const chunks = await Array.fromAsync(stream);

    const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    assert.equal(text, "The answer.");
    assert.deepEqual(chunks[0]?.choices[0]?.delta, { role: "assistant", content: "" });
    assert.deepEqual(chunks.at(-1)?.choices[0]?.finish_reason, "stop");
    assert.ok(chunks.slice(0, -1).every(({ choices }) => choices[0]?.finish_reason === null));
    assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
    assert.ok(chunks.every(({ object, model }) => object === "chat.completion.chunk" && model === "plain"));
    assert.ok(chunks.every((chunk) => !("usage" in chunk)));
  });

  test("CHAT-039 stream_options.include_usage adds one last chunk with the usage of the turn", async () => {
    const stream = await client.chat.completions.create({
      model: "plain",
      messages: [...hi],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await Array.fromAsync(stream);

    const last = chunks.at(-1);
    assert.deepEqual([last?.choices, last?.usage], [[], { ...usage, prompt_tokens_details: { cached_tokens: 0 } }]);
    assert.ok(chunks.slice(0, -1).every((chunk) => chunk.usage === null));
    assert.equal(chunks.at(-2)?.choices[0]?.finish_reason, "stop");
  });

  test("CHAT-039 the bytes of a stream are chunks and [DONE]", async () => {
    const stream = await server.stream(
      "/v1/chat/completions",
      { model: "plain", messages: hi, stream: true },
      { key: keys.ann },
    );
    const frames = await stream.rest();

    assert.equal(stream.headers["content-type"], "text/event-stream");
    const { id, created } = frames[0]?.json ?? {};
    const head = `{"id":"${id}","object":"chat.completion.chunk","created":${created},"model":"plain"`;
    const chunk = (delta: string, finish: string) =>
      `data: ${head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish}}]}\n\n`;
    const deltas = frames.slice(1, -2).map(({ json }) => chunk(JSON.stringify(json.choices[0].delta), "null"));
    assert.ok(deltas.length >= 1);
    assert.equal(
      stream.text,
      [chunk('{"role":"assistant","content":""}', "null"), ...deltas, chunk("{}", '"stop"'), "data: [DONE]\n\n"].join(
        "",
      ),
    );
  });

  test("CHAT-039 tools of the manifest run inside the turn, and the client sees the reply", async () => {
    const completion = await ask("tools", { user: "openai-tools" });

    assert.equal(completion.choices[0]?.message.content, "42.");
    assert.equal(completion.choices[0]?.message.tool_calls, undefined);
    const roles = (await historyOf("openai-tools")).map(([role]: string[]) => role);
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"]);
  });

  test("CHAT-039 reasoning is no part of the content, streamed or not", async () => {
    const whole = await ask("mock-reasoning");
    const stream = await client.chat.completions.create({ model: "mock-reasoning", messages: [...hi], stream: true });
    const text = (await Array.fromAsync(stream)).map(({ choices }) => choices[0]?.delta.content ?? "").join("");

    assert.deepEqual([whole.choices[0]?.message.content, text], ["Hello from the mock.", "Hello from the mock."]);
  });

  test("CHAT-039 prompt_tokens include cached ones, and counts are 0 without a provider's report", async () => {
    const cached = await ask("mock-usage-cached");
    const none = await ask("mock-no-usage");

    const counts = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 };
    assert.deepEqual(cached.usage, { ...counts, prompt_tokens_details: { cached_tokens: 30 } });
    assert.deepEqual([none.usage?.prompt_tokens, none.usage?.completion_tokens, none.usage?.total_tokens], [0, 0, 0]);
  });

  test("CHAT-040 user names the thread: a conversation that the client sends again is kept once", async () => {
    const messages: OpenAI.Chat.Completions.ChatCompletionMessageParam[] = [{ role: "system", content: "Be kind." }];
    for (const content of ["one", "two", "three"]) {
      messages.push({ role: "user", content });
      const { choices } = await client.chat.completions.create({ model: "counted", messages, user: "openai-thread" });
      messages.push(choices[0]?.message as OpenAI.Chat.Completions.ChatCompletionMessage);
    }

    assert.deepEqual(await historyOf("openai-thread"), [
      ["system", "Be kind."],
      ["user", "one"],
      ["assistant", "saw 2"],
      ["user", "two"],
      ["assistant", "saw 4"],
      ["user", "three"],
      ["assistant", "saw 6"],
    ]);
    const asked = mock.requests.filter(({ model }) => model === "counted").at(-1);
    assert.deepEqual(
      shown(asked).map(({ content }) => content),
      ["one", "saw 2", "two", "saw 4", "three"],
    );
  });

  test("CHAT-040 a client may send only its new messages, and shares the thread with POST /chat", async () => {
    await ask("plain", { user: "openai-new" });
    await server.post("/chat", turn("plain", "from /chat", { thread_id: "openai-new" }), { key: keys.ann });

    const { choices } = await ask("counted", { user: "openai-new" });

    assert.equal(choices[0]?.message.content, "saw 5");
  });

  test("CHAT-040 a new thread keeps all that is sent, and without user the turn is stateless", async () => {
    const messages = [
      { role: "user", content: "earlier" },
      { role: "assistant", content: "said" },
      { role: "user", content: "now" },
    ];
    const before = await server.get("/chat/sessions", { key: keys.ann });
    const stateless = await ask("counted", { messages });
    const after = await server.get("/chat/sessions", { key: keys.ann });

    await ask("plain", { messages, user: "openai-first" });

    assert.equal(stateless.choices[0]?.message.content, "saw 3");
    assert.equal(after.text, before.text);
    assert.equal((await historyOf("openai-first")).length, 4);
  });

  test("CHAT-040 a request that ends with the assistant's message is refused on a thread", async () => {
    await ask("plain", { user: "openai-nothing" });
    const messages = [...hi, { role: "assistant", content: "The answer." }];

    const error = await rejection(BadRequestError, ask("plain", { user: "openai-nothing", messages }));

    assert.equal(error.code, "messages_or_template_required");
    assert.equal((await historyOf("openai-nothing")).length, 2);
  });

  test("CHAT-040 a user that is no suffix of a thread is 400 invalid_user", async () => {
    for (const user of ["a:b", "a#b", "x".repeat(201)]) {
      const error = await rejection(BadRequestError, ask("plain", { user }));

      assert.deepEqual([error.code, error.type], ["invalid_user", "invalid_request_error"]);
    }
  });

  test("CHAT-041 finish_reason is mapped from the stop reason, streamed or not", async () => {
    for (const [model, reason] of Object.entries({ ...finishes, hasty: "length" })) {
      const whole = await ask(model);
      const stream = await client.chat.completions.create({ model, messages: [...hi], stream: true });
      const chunks = await Array.fromAsync(stream);

      assert.equal(whole.choices[0]?.finish_reason, reason, model);
      assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, reason, model);
    }
  });

  test("CHAT-042 CHAT-043 CHAT-044 CHAT-045 SPEC-005 SPEC-007 models.list lists every manifest that can be called", async () => {
    const listed = await Array.fromAsync(client.models.list());

    const ids = listed.map(({ id }) => id);
    for (const name of ["quick", "agent", "greeter", "guarded"]) assert.ok(ids.includes(name), name);
    assert.ok(!ids.includes("broken"));
    const greeter = listed.find(({ id }) => id === "greeter") as OpenAI.Model & {
      description: string;
      svc: Record<string, unknown>;
    };
    const { starters, greeting, commands, outputStyles, defaultOutputStyle } = greeter.svc;
    assert.deepEqual([greeter.object, greeter.owned_by, greeter.description], ["model", "svc", "Greets."]);
    assert.deepEqual(starters, [{ title: "Start", prompt: "Go" }]);
    assert.equal((greeting as { headline: string }).headline, "Hello!");
    assert.deepEqual(commands, [{ name: "greet", description: "Greets", argumentHint: "<name>" }]);
    assert.deepEqual([outputStyles, defaultOutputStyle], [[], null]);
    assert.deepEqual(await client.models.retrieve("greeter"), greeter);
    for (const name of ["broken", "no-such-manifest"]) {
      const error = await rejection(NotFoundError, client.models.retrieve(name));
      assert.equal(error.code, "model_not_found");
    }
  });

  test("CHAT-039 max_tokens only lowers the manifest's bound, and temperature is passed on", async () => {
    await ask("bounded");
    await ask("bounded", { max_tokens: 10, temperature: 0.9 });
    await ask("bounded", { max_completion_tokens: 20, max_tokens: 10 });
    await ask("bounded", { max_completion_tokens: 1000, temperature: null });
    await ask("plain", { max_tokens: 30 });

    const sent = mock.requests
      .filter(({ model }) => model === "bounded")
      .map(({ body }) => [body.max_tokens, body.temperature]);
    assert.deepEqual(sent, [
      [100, 0.5],
      [10, 0.9],
      [20, 0.5],
      [100, 0.5],
    ]);
    assert.equal(mock.requests.at(-1)?.body.max_tokens, 30);
  });

  test("CHAT-039 fields without effect are accepted, known and unknown ones", async () => {
    const { choices } = await ask("plain", {
      n: 1,
      seed: 7,
      top_p: 0.5,
      frequency_penalty: 1,
      presence_penalty: 1,
      metadata: { a: "b" },
      store: true,
      service_tier: "auto",
      parallel_tool_calls: false,
      logprobs: false,
      response_format: { type: "text" },
      tools: [],
      something_new: { a: 1 },
    });

    assert.equal(choices[0]?.message.content, "The answer.");
    const { body } = mock.requests.at(-1) as { body: object };
    for (const field of ["seed", "top_p", "metadata", "something_new"]) assert.ok(!(field in body), field);
  });

  test("CHAT-039 fields that would change the answer are 400 unsupported_parameter by name", async () => {
    const fields = {
      function_call: { name: "f" },
      functions: [{ name: "f" }],
      n: 2,
      response_format: { type: "grammar" },
      logprobs: true,
      audio: { voice: "alloy", format: "mp3" },
    };

    for (const [param, value] of Object.entries(fields)) {
      for (const stream of [false, true]) {
        const error = await rejection(BadRequestError, ask("plain", { [param]: value, stream }));

        assert.deepEqual(
          [error.param, error.type, error.code],
          [param, "invalid_request_error", "unsupported_parameter"],
        );
      }
    }
  });

  test("CHAT-039 a validation error is 400 in the form of the protocol and names its field", async () => {
    const cases: [object, string][] = [
      [{ messages: [] }, "messages"],
      [{ messages: "hi" }, "messages"],
      [{ messages: [{ content: "hi" }] }, "messages.0.role"],
      [{ messages: [{ role: "robot", content: "hi" }] }, "messages.0.role"],
      [{ model: 7 }, "model"],
      [{ temperature: 3 }, "temperature"],
      [{ max_tokens: 0 }, "max_tokens"],
      [{ n: 0 }, "n"],
      [{ user: 7 }, "user"],
      [
        { messages: [{ role: "assistant", tool_calls: [{ function: { name: "f", arguments: "{broken" } }] }, ...hi] },
        "messages.0.tool_calls.0.function.arguments",
      ],
    ];
    for (const [fields, param] of cases) {
      const { status, json } = await post(fields);

      assert.equal(status, 400, JSON.stringify(fields));
      assert.deepEqual(Object.keys(json), ["error"]);
      assert.deepEqual(Object.keys(json.error), ["message", "type", "param", "code"]);
      assert.deepEqual(
        [json.error.type, json.error.param, json.error.code],
        ["invalid_request_error", param, "invalid_request"],
      );
    }
  });

  test("CHAT-039 refusals have POST /chat's status, the protocol's form and the client's classes", async () => {
    const unknown = await rejection(NotFoundError, ask("nobody"));
    const forbidden = await rejection(PermissionDeniedError, ask("guarded"));
    const part = [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://x.example/a.png" } }] }];
    const unprocessable = await rejection(UnprocessableEntityError, ask("plain", { messages: part }));
    const invalid = await rejection(UnprocessableEntityError, ask("broken"));
    const reader = await post({}, keys.reader);

    assert.deepEqual([unknown.code, unknown.type, unknown.param], ["model_not_found", "invalid_request_error", null]);
    assert.deepEqual([forbidden.type, forbidden.code], ["auth_error", "missing_scopes"]);
    assert.match(forbidden.message, /missing scopes: vault:open/);
    assert.equal(unprocessable.code, "unsupported_part");
    assert.equal(invalid.code, "invalid_manifest");
    assert.deepEqual([reader.status, reader.text], [403, '{"detail":"missing scopes: chat:write"}']);
  });

  test("CHAT-039 bodies of the middleware stay as they are: 401 and 413", async () => {
    const wrong = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "not-a-key" });

    const error = await rejection(
      AuthenticationError,
      wrong.chat.completions.create({ model: "plain", messages: [...hi] }),
    );
    const missing = await post({}, null);
    const large = await post({ messages: [{ role: "user", content: "x".repeat(1024 * 1024) }] });

    assert.equal(error.status, 401);
    assert.deepEqual([missing.status, missing.text], [401, '{"error":"unauthorized","reason":"missing_credentials"}']);
    assert.deepEqual([large.status, large.text], [413, '{"error":"payload_too_large"}']);
  });

  test("CHAT-039 a busy thread's 409 has x-should-retry: false, and the client does not retry", async () => {
    const more = gate();
    mock.answer("held", says("So far", more.opened, "."));
    const stream = await client.chat.completions.create({
      model: "held",
      messages: [...hi],
      user: "openai-busy",
      stream: true,
    });
    // The stream opens when the turn is accepted, which may be before the model call starts.
    await eventually(
      "the model is asked",
      async () => mock.requests.some(({ model }) => model === "held") || undefined,
    );
    const calledBefore = mock.requests.length;

    const error = await rejection(ConflictError, ask("plain", { user: "openai-busy" }));
    more.open();
    const chunks = await Array.fromAsync(stream);

    assert.equal(error.headers.get("x-should-retry"), "false");
    assert.match(String(error.code), /^run_in_progress:[0-9a-f]{32}$/);
    assert.equal(error.type, "conflict_error");
    assert.equal(mock.requests.length, calledBefore);
    assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, "stop");
    assert.equal((await historyOf("openai-busy")).length, 2);
  });

  test("CHAT-039 a failing model is 502 model_unavailable; in a stream an error the client throws", async () => {
    const whole = await rejection(
      InternalServerError,
      client.chat.completions.create({ model: "mock-status-400", messages: [...hi] }, { maxRetries: 0 }),
    );
    const stream = await client.chat.completions.create({ model: "mock-truncated", messages: [...hi], stream: true });
    const texts: string[] = [];
    const broken = await rejection(
      APIError,
      (async () => {
        for await (const { choices } of stream) texts.push(choices[0]?.delta.content ?? "");
      })(),
    );

    assert.deepEqual([whole.status, whole.code, whole.type], [502, "model_unavailable", "model_gateway_error"]);
    assert.equal(texts.join(""), "Hello");
    assert.deepEqual([broken.code, broken.type], ["model_unavailable", "model_gateway_error"]);
  });

  test("ERR-007 CHAT-039 any other failure is in the form of the protocol too", async () => {
    const once = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann, maxRetries: 0 });
    const body = { model: "secretive", messages: [...hi] };

    const whole = await rejection(InternalServerError, once.chat.completions.create(body));
    const stream = await once.chat.completions.create({ ...body, stream: true });
    const broken = await rejection(APIError, Array.fromAsync(stream));

    assert.deepEqual([whole.status, whole.code, whole.type], [503, "unresolved_secret", "server_error"]);
    assert.deepEqual([broken.code, broken.type], ["unresolved_secret", "server_error"]);
  });

  test("CHAT-039 a stateless stream whose client leaves is ended, with its model call", async () => {
    mock.answer("left", says("Half", never));
    const stream = await client.chat.completions.create({ model: "left", messages: [...hi], stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content) break;

    const ended = await mock.requests.find(({ model }) => model === "left")?.ended;

    assert.equal(ended, "gone");
  });
});

describe("the OpenAI surface under a rate limit", () => {
  const atEnd = cleanup();

  test("CHAT-039 ERR-005 429 keeps its body and its Retry-After, and is the client's RateLimitError", async () => {
    const env = { SVC_RATE_LIMIT: "1", SVC_RATE_LIMIT_WINDOW_SECONDS: "3600" };
    const { server, mock } = await startChat(atEnd, { models: ["plain"], env });
    mock.answer("plain", { text: "The answer." });
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "unused", maxRetries: 0 });
    const ask = () => client.chat.completions.create({ model: "agent", messages: [{ role: "user", content: "hi" }] });
    await ask();

    const error = await ask().catch((reason: unknown) => reason);
    const chat = await server.post("/chat", turn("agent", "hi"));

    assert.ok(error instanceof RateLimitError);
    for (const seconds of [error.headers.get("retry-after"), chat.headers["retry-after"]]) {
      assert.match(String(seconds), /^[1-9]\d{0,3}$/);
      assert.ok(Number(seconds) <= 3600);
    }
    assert.deepEqual([chat.status, chat.text], [429, '{"error":"rate_limited"}']);
  });
});
