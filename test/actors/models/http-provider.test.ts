import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { type HttpProviderConfig, httpProvider } from "../../../actors/models/http-provider.ts";
import { ModelFailure, type ModelProvider } from "../../../actors/models/provider.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Egress } from "../../../governance/egress/egress.ts";
import { ResponseHead } from "../../../governance/egress/response-head.ts";
import { retryAfterMs } from "../../../governance/egress/retry-after.ts";
import { SecretMask } from "../../../governance/secret-mask.ts";
import type { ModelParameter, ModelRoute } from "../../../manifests/registries.ts";
import { jsonScript } from "../../support/mock-model/answer.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../../support/mock-model.ts";
import { listen, requestTo, routeTo, stillEnv } from "./support.ts";

const apiKey = "planted-credential-1234567890";

let mock: MockModel;
let provider: ModelProvider;
before(async () => {
  mock = await startMockModel();
  provider = providerOf();
});
after(() => mock.close());

function configOf(more: Partial<HttpProviderConfig> = {}): HttpProviderConfig {
  return {
    name: "mock",
    baseUrl: mock.url,
    apiKey,
    timeoutMs: 60_000,
    maxTokensField: "max_tokens",
    asksForUsage: true,
    mask: new SecretMask([apiKey]),
    ...more,
  };
}

function providerOf(more: Partial<HttpProviderConfig> = {}): ModelProvider {
  return httpProvider(configOf(more), stillEnv().env, new Egress("operator"));
}

async function ask(model: string, facts: Parameters<typeof requestTo>[1] = {}, of = provider) {
  const listener = listen();
  const reply = await of.start(requestTo(model, facts), listener.events).reply;
  return { reply, listener };
}

/** The failure of a call that fails. */
async function failureOf(
  model: string,
  facts: Parameters<typeof requestTo>[1] = {},
  of = provider,
): Promise<ModelFailure> {
  try {
    await of.start(requestTo(model, facts), listen().events).reply;
  } catch (error) {
    assert.ok(error instanceof ModelFailure, String(error));
    return error;
  }
  assert.fail("the call succeeded");
}

/** The end of this turn of the event loop: by then a connection is free again. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function lastRequest() {
  const request = mock.requests.at(-1);
  assert.ok(request);
  return request;
}

test("a request has the given messages, tools, bounds and credential", async () => {
  const tools = [{ type: "function", function: { name: "f", description: "", parameters: {} } }];
  const messages = [{ role: "user", content: "Grüße" }];

  await ask("mock-text", {
    messages: JSON.stringify(messages),
    tools: JSON.stringify(tools),
    temperature: 0.25,
    max_tokens: 64,
  });

  assert.equal(lastRequest().path, "/v1/chat/completions");
  assert.equal(lastRequest().headers.authorization, `Bearer ${apiKey}`);
  assert.equal(lastRequest().headers["content-type"], "application/json");
  assert.deepEqual(lastRequest().body, {
    model: "mock-text",
    messages,
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0.25,
    max_tokens: 64,
    tools,
  });
});

test("missing bounds and tools are not sent, and the bound has the provider's name", async () => {
  await ask("mock-text");
  const plain = lastRequest().body;
  await ask("mock-text", { max_tokens: 7 }, providerOf({ maxTokensField: "max_completion_tokens" }));

  assert.deepEqual(Object.keys(plain), ["model", "messages", "stream", "stream_options", "temperature"]);
  assert.equal(lastRequest().body.max_completion_tokens, 7);
  assert.equal("max_tokens" in lastRequest().body, false);
});

test("a route sets its parameters: the bound's name, or none, and no temperature", async () => {
  const route = (...parameters: ModelParameter[]) => routeTo("mock-text", { parameters });
  const sent = async (of: ModelRoute, temperature = 0) => {
    await ask("mock-text", { route: of, max_tokens: 7, temperature });
    return Object.keys(lastRequest().body).slice(4);
  };

  assert.deepEqual(await sent(route("temperature", "max_completion_tokens")), ["temperature", "max_completion_tokens"]);
  assert.deepEqual(await sent(route("max_tokens")), ["max_tokens"]);
  assert.deepEqual(await sent(route("temperature")), ["temperature"]);
  assert.deepEqual(await sent(route()), []);
  assert.deepEqual(await sent(route(), 0.5), ["temperature"], "what a manifest asks for is asked for");
});

test("a streamed answer comes with its text, usage and stop reason", async () => {
  const { reply, listener } = await ask("mock-usage-cached");

  assert.equal(reply.text, "Hello from the mock.");
  assert.equal(listener.text, reply.text);
  assert.equal(reply.stop_reason, "end_turn");
  assert.deepEqual(reply.usage, { input: 20, output: 5, cacheRead: 30, cacheWrite: 0 });
});

test("tool calls come whole out of their fragments", async () => {
  const { reply } = await ask("mock-tools-gaps");

  assert.deepEqual(reply.tool_calls, [
    { id: "call_a", name: "calculator", arguments: '{"expression":"1+1"}' },
    { id: "call_b", name: "calculator", arguments: '{"expression":"2+2"}' },
  ]);
});

test("reasoning comes apart from text", async () => {
  const { reply } = await ask("mock-reasoning");

  assert.equal(reply.reasoning, "Let me think.");
  assert.equal(reply.text, "Hello from the mock.");
});

for (const model of [
  "mock-crlf",
  "mock-cr",
  "mock-no-space",
  "mock-comments",
  "mock-no-done",
  "mock-no-finish",
  "mock-bytes-1",
  "mock-bytes-3",
]) {
  test(`${model}: an unusual and allowed stream is read`, async () => {
    const { reply } = await ask(model);

    assert.equal(reply.text, model.startsWith("mock-bytes") ? "Grüße, 世界! 🦊 – déjà vu" : "Hello from the mock.");
  });
}

test("an answer that was not streamed is read too", async () => {
  const message = { role: "assistant", content: "Whole." };
  mock.answer("whole", jsonScript(200, { choices: [{ index: 0, message, finish_reason: "stop" }] }));

  const { reply, listener } = await ask("whole");

  assert.equal(reply.text, "Whole.");
  assert.equal(listener.text, "Whole.");
});

test("a stream without a content type is read", async () => {
  mock.answer("typeless", {
    headers: { "content-type": "" },
    steps: [{ send: 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n' }],
  });

  assert.equal((await ask("typeless")).reply.text, "Hi");
});

for (const [status, retryable] of [
  [302, false],
  [400, false],
  [401, false],
  [403, false],
  [404, false],
  [408, true],
  [409, true],
  [422, false],
  [429, true],
  [500, true],
  [502, true],
  [503, true],
  [529, true],
] as const) {
  test(`status ${status} is a failure ${retryable ? "that may pass" : "for good"}, with the provider's text`, async () => {
    const failed = await failureOf(`mock-status-${status}`);

    assert.equal(failed.status, status);
    assert.equal(failed.retryable, retryable);
    assert.equal(failed.message, `status ${status}: The mock answers ${status}.`);
    assert.equal(failed.partial, "");
    assert.equal(failed.timedOut, false);
  });
}

for (const [name, body, words] of [
  ["Google's list of one", [{ error: { code: 400, message: "API key not valid." } }], "API key not valid."],
  [
    "Cloudflare's errors",
    { success: false, errors: [{ code: 10000, message: "Authentication error" }] },
    "Authentication error",
  ],
  ["a bare message", { message: "no such model" }, "no such model"],
  ["a bare detail", { detail: "no such model" }, "no such model"],
  ["a text for an error", { error: "no such model" }, "no such model"],
] as const) {
  test(`the text of a refusal is found in ${name}`, async () => {
    mock.answer("refusing", jsonScript(400, body));

    assert.equal((await failureOf("refusing")).message, `status 400: ${words}`);
  });
}

test("a refusal without usable text is its status", async () => {
  mock.answer("page", {
    status: 503,
    headers: { "content-type": "text/html" },
    framing: "length",
    steps: [{ send: "<h1>Bad gateway</h1>" }],
  });
  mock.answer("nothing", { status: 503, framing: "length", steps: [] });
  mock.answer("null", jsonScript(503, null));

  for (const model of ["page", "nothing", "null"]) assert.equal((await failureOf(model)).message, "status 503");
});

test("a refusal that does not end is cut off", async () => {
  mock.answer("endless-refusal", {
    status: 500,
    steps: [{ endless: "x".repeat(1024), gapMs: 0, bytesMax: 1024 ** 3 }],
  });

  const failed = await failureOf("endless-refusal");

  assert.equal(failed.status, 500);
  assert.equal(await lastRequest().ended, "gone");
});

test("Retry-After comes in seconds, as a date, and in OpenAI's milliseconds", async () => {
  mock.answer(
    "patient",
    failure(429, { "retry-after": "7" }),
    failure(429, { "retry-after": "9", "retry-after-ms": "250" }),
  );
  // The clock of these tests is set to midnight.
  mock.answer("dated", failure(503, { "retry-after": "Sun, 01 Nov 2026 00:00:20 GMT" }));

  const seconds = await failureOf("patient");
  const fine = await failureOf("patient");
  const dated = await failureOf("dated");

  assert.deepEqual([seconds.retryAfterMs, fine.retryAfterMs, dated.retryAfterMs], [7000, 250, 20_000]);
});

test("a Retry-After that is none is none", () => {
  for (const value of ["", "soon", "-5", "5 minutes", "foo 5", "NaN", "1e3", "Mon, 99 Foo 2026 00:00:00 GMT"]) {
    const head = ResponseHead.parse(`HTTP/1.1 503 \r\nretry-after: ${value}\r\nretry-after-ms:`);
    assert.equal(retryAfterMs(head, 0), null, value);
  }
  const endless = ResponseHead.parse(`HTTP/1.1 503\r\nRetry-After: ${"9".repeat(400)}`);
  assert.equal(retryAfterMs(endless, 0), 1e12);
  assert.equal(retryAfterMs(ResponseHead.parse("HTTP/1.1 503\r\nRetry-After: Thu, 01 Jan 1970 00:00:00 GMT"), 5000), 0);
});

test("a forbidden destination is a permanent failure that names no address", async () => {
  for (const baseUrl of ["http://169.254.169.254/v1", "http://[fd00:ec2::254]:8080/v1", "http://0xa9fea9fe/v1"]) {
    const failed = await failureOf("mock-text", {}, providerOf({ baseUrl }));

    assert.equal(failed.message, "egress_blocked: destination not permitted");
    assert.equal(failed.publicMessage, failed.message);
    assert.equal(failed.retryable, false);
    assert.equal(failed.timedOut, false);
  }
});

test("a refused connection is a failure that may pass, and does not tell the address", async () => {
  const server = createServer();
  const port = await new Promise<number>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port)),
  );
  await new Promise((resolve) => server.close(resolve));

  const failed = await failureOf("mock-text", {}, providerOf({ baseUrl: `http://127.0.0.1:${port}/v1` }));

  assert.equal(failed.message, "the connection failed (ECONNREFUSED)");
  assert.equal(failed.status, 0);
  assert.equal(failed.retryable, true);
});

test("silence before the answer times out, for good", async () => {
  const failed = await failureOf("mock-hang", {}, providerOf({ timeoutMs: 50 }));

  assert.equal(failed.message, "no answer within 0.05 seconds");
  assert.deepEqual([failed.timedOut, failed.retryable, failed.status], [true, false, 0]);
  assert.equal(await lastRequest().ended, "gone");
});

test("silence inside the answer times out with the partial text", async () => {
  const failed = await failureOf("mock-hang-between", {}, providerOf({ timeoutMs: 900 }));

  assert.equal(failed.message, "the answer fell silent for 0.9 seconds");
  assert.deepEqual([failed.timedOut, failed.retryable, failed.partial], [true, false, "Hello"]);
});

for (const [model, message, partial] of [
  ["mock-truncated", "the connection was lost", "Hello"],
  ["mock-reset", "the connection was lost", "Hello"],
  ["mock-reset-before-head", "the connection was lost", ""],
  ["mock-error-in-stream", "The mock broke.", "Hello"],
] as const) {
  test(`${model}: a broken answer is a retryable failure with the partial text`, async () => {
    const failed = await failureOf(model);

    assert.equal(failed.message, message);
    assert.equal(failed.partial, partial);
    assert.deepEqual([failed.retryable, failed.timedOut], [true, false]);
  });
}

const said = 'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
const whole = JSON.stringify({ choices: [{ message: { content: "Hello" }, finish_reason: "stop" }] });

for (const [name, script, message] of [
  ["a page of HTML", "mock-wrong-type", "a line of the stream is not JSON"],
  ["half a document", "mock-not-json", "a line of the stream is not JSON"],
  ["half an event", { steps: [{ send: "data: {broken\n\n" }] }, "a line of the stream is not JSON"],
  [
    "gzip that nobody asked for",
    { headers: { "content-encoding": "gzip" }, steps: [{ send: said }] },
    /content-encoding gzip/,
  ],
  ["two lengths", { headers: { "content-length": "7" }, steps: [{ send: said }] }, /^the answer is not HTTP/],
  [
    "a head of 20 KB",
    { headers: { "x-long": "x".repeat(20_000) }, steps: [{ send: said }] },
    /^the answer is not HTTP/,
  ],
] as const) {
  test(`an answer with ${name} is not asked for again`, async () => {
    const model = typeof script === "string" ? script : `form-${name}`;
    if (typeof script !== "string") mock.answer(model, script);

    const failed = await failureOf(model);

    if (typeof message === "string") assert.equal(failed.message, message);
    else assert.match(failed.message, message);
    assert.deepEqual([failed.retryable, failed.timedOut, failed.partial], [false, false, ""]);
  });
}

for (const [name, headers, body] of [
  ["an event stream that is called JSON", { "content-type": "application/json" }, said],
  ["an event stream that is called text", { "content-type": "text/plain" }, `: hello\n\n${said}`],
  ["an event stream that is called HTML", { "content-type": "text/html" }, `\n\n${said}`],
  ["an event stream of no type", { "content-type": "" }, said],
  ["a document that is called an event stream", { "content-type": "text/event-stream" }, whole],
  ["a document of no type", { "content-type": "" }, `\n ${whole}`],
  ["a document that is called text", { "content-type": "text/plain" }, whole],
] as const) {
  test(`${name} is read by its content`, async () => {
    mock.answer(name, { headers, steps: [{ send: body }] });

    const { reply } = await ask(name);

    assert.deepEqual([reply.text, reply.stop_reason], ["Hello", "end_turn"]);
  });
}

for (const [name, endless] of [
  ["comments", ": OPENROUTER PROCESSING\n\n"],
  ["pings", "event: ping\ndata: {}\n\n"],
  ["empty deltas", 'data: {"choices":[{"delta":{"content":"","tool_calls":[]}}]}\n\n'],
  ["blanks of a document", " "],
] as const) {
  test(`an endless answer of ${name} is given up as silent`, async () => {
    const headers = { "content-type": name.endsWith("document") ? "application/json" : "text/event-stream" };
    const send = name.endsWith("document") ? "{" : ": hello\n\n";
    mock.answer(name, { headers, steps: [{ send }, { endless, gapMs: 5, bytesMax: 64 * 1024 * 1024 }] });

    const failed = await failureOf(
      name,
      {},
      httpProvider(configOf({ timeoutMs: 40 }), systemEnv(), new Egress("operator")),
    );

    assert.equal(failed.message, "the answer has said nothing for 0.2 seconds");
    assert.deepEqual([failed.timedOut, failed.retryable], [true, false]);
    assert.equal(await lastRequest().ended, "gone");
  });
}

test("an answer with occasional text is not silent, however long it takes", async () => {
  const word = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
  const beats = Array.from({ length: 20 }, () => [...Array(4).fill(": wait\n\n"), word]).flat();
  mock.answer("slow", { steps: [{ paced: [...beats, said], gapMs: 8 }] });

  const listener = listen();
  const patient = httpProvider(configOf({ timeoutMs: 100 }), systemEnv(), new Egress("operator"));
  const reply = await patient.start(requestTo("slow"), listener.events).reply;

  assert.equal(reply.text, `${"a".repeat(20)}Hello`);
});

for (const [name, step] of [
  ["is lost", { cut: "reset" }],
  ["stays open", { hold: "forever" }],
] as const)
  test(`an answer whose last word has come is whole, even if its connection ${name} then`, async () => {
    mock.answer("ended", { steps: [{ send: said }, { waitMs: 20 }, step] });

    const { reply } = await ask("ended");
    const after = await ask("mock-text");

    assert.deepEqual([reply.text, reply.stop_reason], ["Hello", "end_turn"]);
    assert.equal(after.reply.stop_reason, "end_turn");
  });

test("a malformed event breaks the answer, with the text before it", async () => {
  const failed = await failureOf("mock-malformed");

  assert.equal(failed.message, "a line of the stream is not JSON");
  assert.equal(failed.partial, "Hello from the");
});

test("an error inside the stream that states a status is like an answer of that status", async () => {
  const event = (code: number) => `data: {"error":{"code":${code},"message":"No."}}\n\n`;
  mock.answer("poor", { steps: [{ send: event(402) }] });
  mock.answer("busy", { steps: [{ send: event(429) }] });

  const poor = await failureOf("poor");
  const busy = await failureOf("busy");

  assert.deepEqual([poor.status, poor.retryable], [402, false]);
  assert.deepEqual([busy.status, busy.retryable], [429, true]);
});

test("a broken call leaves no connection in use, and the next call is well", async () => {
  await failureOf("mock-error-in-stream");
  await failureOf("mock-malformed");

  assert.equal((await ask("mock-text")).reply.text, "Hello from the mock.");
});

test("calls after one another share a connection, refusals among them", async (context) => {
  const server = await startMockModel();
  context.after(() => server.close());
  const own = providerOf({ baseUrl: server.url });

  await ask("mock-text", {}, own);
  await nextTurn();
  await failureOf("mock-status-429", {}, own);
  await nextTurn();
  await ask("mock-text", {}, own);

  assert.equal(server.connections, 1);
});

test("an abort while waiting ends the call and its connection", async () => {
  const arrived = Promise.withResolvers<void>();
  mock.answer("waiting", () => {
    arrived.resolve();
    return { steps: [{ hold: "forever" }] };
  });
  const call = provider.start(requestTo("waiting"), listen().events);
  await arrived.promise;

  call.abort();

  await assert.rejects(call.reply, { message: "aborted", partial: "", retryable: false });
  assert.equal(await lastRequest().ended, "gone");
});

test("an abort during the answer ends call and connection, and keeps the partial text", async () => {
  const listener = listen(() => call.abort());
  const call = provider.start(requestTo("mock-endless"), listener.events);

  await assert.rejects(
    call.reply,
    (failed) =>
      failed instanceof ModelFailure &&
      failed.message === "aborted" &&
      failed.partial === listener.text &&
      !failed.retryable,
  );

  assert.equal(await lastRequest().ended, "gone");
  assert.equal(listener.deltas.length, 1);
});

test("an abort before there is a connection does not wait for one", async () => {
  // An address that no packet comes back from.
  const unreachable = providerOf({ baseUrl: "http://192.0.2.1:9/v1" });
  const call = unreachable.start(requestTo("mock-text"), listen().events);

  call.abort();

  await assert.rejects(call.reply, new ModelFailure("aborted"));
});

test("an abort after the end changes nothing", async () => {
  const call = provider.start(requestTo("mock-text"), listen().events);
  const reply = await call.reply;

  call.abort();
  call.pause();
  call.resume();

  assert.equal(reply.text, "Hello from the mock.");
  assert.equal((await ask("mock-text")).reply.text, "Hello from the mock.");
});

test("a paused call reads nothing, and everything after its resume", async () => {
  const more = Promise.withResolvers<void>();
  const event = (content: string) => `data: {"choices":[{"delta":{"content":"${content}"},"finish_reason":null}]}\n\n`;
  const much = event("x".repeat(1000)).repeat(4000);
  mock.answer("much", {
    steps: [{ send: event("first") }, { hold: more.promise }, { send: much }, { send: "data: [DONE]\n\n" }],
  });
  let paused = false;
  const listener = listen(() => {
    if (paused) return;
    paused = true;
    call.pause();
    more.resolve();
  });
  const call = provider.start(requestTo("much"), listener.events);

  // Whole calls at the same time: the loop has turned often enough for the rest to arrive.
  for (let turn = 0; turn < 10; turn++) await ask("mock-text");
  const heard = listener.text;
  call.resume();
  const reply = await call.reply;

  assert.equal(heard, "first");
  assert.equal(reply.text.length, 5 + 4_000_000);
  assert.equal(listener.text, reply.text);
});

test("a paused call can be aborted", async () => {
  const paused = Promise.withResolvers<void>();
  const listener = listen(() => {
    call.pause();
    paused.resolve();
  });
  const call = provider.start(requestTo("mock-endless"), listener.events);
  await paused.promise;
  const request = lastRequest();

  call.abort();

  await assert.rejects(call.reply, { message: "aborted", partial: listener.text });
  assert.equal(await request.ended, "gone");
});

test("a long pause of the listener is no silence of the provider", async () => {
  const quick = providerOf({ timeoutMs: 400 });
  mock.answer("two", {
    steps: [{ send: 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' }, { send: "data: [DONE]\n\n" }],
  });
  const timedOut = failureOf("mock-hang", {}, providerOf({ timeoutMs: 1200 }));
  const call = quick.start(requestTo("two"), listen(() => call.pause()).events);

  // Another call, with three times the timeout, has reached it by then.
  await timedOut;
  call.resume();

  assert.equal((await call.reply).text, "a");
});

test("a model that refuses temperature 0 is called without one, then and from then on", async () => {
  const refusal = jsonScript(400, {
    error: { message: "Unsupported value: 'temperature' does not support 0.", param: "temperature" },
  });
  mock.answer("reasoner", ({ body }) => ("temperature" in body ? refusal : { text: "Fine." }));
  const own = providerOf();
  const before = mock.requests.length;

  const first = await ask("reasoner", {}, own);
  const second = await ask("reasoner", {}, own);

  assert.deepEqual([first.reply.text, second.reply.text], ["Fine.", "Fine."]);
  assert.deepEqual(
    mock.requests.slice(before).map(({ body }) => "temperature" in body),
    [true, false, false],
  );
});

test("a model that refuses the manifest's temperature fails without a retry", async () => {
  mock.answer("strict", jsonScript(400, { error: { message: "temperature is not supported" } }));
  const before = mock.requests.length;

  const failed = await failureOf("strict", { temperature: 0.7 });

  assert.equal(failed.message, "status 400: temperature is not supported");
  assert.equal(mock.requests.length, before + 1);
});

test("a model that refuses temperature 0 in any case fails after one more try", async () => {
  mock.answer("stubborn", jsonScript(400, { error: { message: "temperature is not supported" } }));
  const before = mock.requests.length;

  await failureOf("stubborn", {}, providerOf());

  assert.equal(mock.requests.length, before + 2);
});

test("a credential that the provider repeats is in no failure", async () => {
  const told = `Incorrect key: ${apiKey}`;
  mock.answer("echo-refusal", jsonScript(401, { error: { message: told } }));
  mock.answer("echo-stream", { steps: [{ send: `data: ${JSON.stringify({ error: { message: told } })}\n\n` }] });

  for (const model of ["echo-refusal", "echo-stream"]) {
    const failed = await failureOf(model);

    assert.match(failed.message, /Incorrect key: \[REDACTED\]/);
    assert.equal(failed.message.includes(apiKey), false);
  }
});

test("a guessable credential is hidden too, as the provider repeats it", async () => {
  const told = { error: { message: "Incorrect key: dev-key, of dev-key." } };
  mock.answer("echo-short", jsonScript(401, told));
  const found = () => Promise.resolve("dev-key");

  for (const key of ["dev-key", found]) {
    const failed = await failureOf("echo-short", {}, providerOf({ apiKey: key, mask: new SecretMask(["dev-key"]) }));

    assert.equal(failed.message, "status 401: Incorrect key: [REDACTED], of [REDACTED].");
    assert.equal(failed.publicMessage, failed.message);
  }
});

test("a failure hides addresses from the caller, and shows them to the operator", async () => {
  const host = new URL(mock.url).host;
  const said = `upstream http://vllm-3.internal:8000/v1 behind ${host} is gone`;
  mock.answer("gone", jsonScript(400, { error: { message: said } }));
  mock.answer("gone-later", {
    steps: [{ send: `data: ${JSON.stringify({ error: { message: said, code: 400 } })}\n\n` }],
  });

  for (const [model, before] of [
    ["gone", "status 400: "],
    ["gone-later", ""],
  ] as const) {
    const failed = await failureOf(model);

    assert.equal(failed.message, before + said);
    assert.equal(failed.publicMessage, `${before}upstream [address] behind [address] is gone`);
  }
});

test("a truncated address is not shown", async () => {
  const said = `gone: ${"http://a.example/ ".repeat(222)}10.20.30.40 10.20.30.40`;
  mock.answer("cut-through", jsonScript(400, { error: { message: said } }));

  for (let shift = 0; shift < 16; shift++) {
    mock.answer("cut-through", jsonScript(400, { error: { message: "x".repeat(shift) + said } }));
    assert.doesNotMatch((await failureOf("cut-through")).publicMessage, /10\.|example/);
  }
  mock.answer("one-word", jsonScript(400, { error: { message: "10.20.30.40/".repeat(1000) } }));
  assert.equal((await failureOf("one-word")).publicMessage, "status 400");
});

test("an invalid header value as credential is a permanent failure without its text", async () => {
  const failed = await failureOf("mock-text", {}, providerOf({ apiKey: "line\nbreak", mask: new SecretMask([]) }));

  assert.equal(failed.message, "the request cannot be sent: invalid authorization header");
  assert.equal(failed.unsendable, true);
  assert.equal(failed.retryable, false);
});

test("the text of a failure is bounded and well-formed", async () => {
  mock.answer("wordy", jsonScript(400, { error: { message: "🦊".repeat(2000) } }));

  const failed = await failureOf("wordy");

  assert.ok(failed.message.length <= 520);
  assert.ok(failed.message.isWellFormed());
});

test("many calls at once do not mix", async () => {
  const env = systemEnv();
  const marks = Array.from({ length: 40 }, () => env.id());
  mock.answer("mark", ({ body }) => ({ text: JSON.stringify(body.messages).match(/[0-9a-f]{32}/)?.[0] ?? "" }));

  const replies = await Promise.all(
    marks.map((mark) => ask("mark", { messages: JSON.stringify([{ role: "user", content: mark }]) })),
  );

  assert.deepEqual(
    replies.map(({ reply }) => reply.text),
    marks,
  );
});
