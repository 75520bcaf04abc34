import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import type { ChatCompletionChunk } from "openai/resources/chat/completions";
import { behaviourNames, failure, loadTokens } from "../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";

let server: MockModel;
let client: OpenAI;

before(async () => {
  server = await startMockModel();
  client = new OpenAI({ apiKey: "key", baseURL: server.url, maxRetries: 0 });
});
after(() => server.close());

const question = [{ role: "user", content: "Hello" }] as const;
const hello = "Hello from the mock.";

async function streamOf(model: string, includeUsage = false): Promise<ChatCompletionChunk[]> {
  const stream = await client.chat.completions.create({
    model,
    messages: [...question],
    stream: true,
    ...(includeUsage ? { stream_options: { include_usage: true } } : {}),
  });
  return await Array.fromAsync(stream);
}

function textOf(chunks: readonly ChatCompletionChunk[]): string {
  return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
}

function finishOf(chunks: readonly ChatCompletionChunk[]): string | undefined {
  return chunks.map((chunk) => chunk.choices[0]?.finish_reason).findLast((reason) => reason != null) ?? undefined;
}

for (const model of ["mock-burst", "mock-trickle", "mock-paced-1"]) {
  test(`${model} streams sixty-four tokens, usage and an end`, async () => {
    const chunks = await streamOf(model, true);

    const withText = chunks.filter((chunk) => chunk.choices[0]?.delta.content);
    assert.equal(withText.length, 64);
    assert.equal(textOf(chunks), loadTokens.join(""));
    assert.equal(finishOf(chunks), "stop");
    assert.equal(chunks.at(-1)?.usage?.completion_tokens, 64);
  });
}

for (const model of [
  "mock-text",
  "mock-crlf",
  "mock-no-space",
  "mock-comments",
  "mock-bytes-1",
  "mock-bytes-7",
  "mock-no-done",
]) {
  test(`${model} is a stream that the official client reads`, async () => {
    const chunks = await streamOf(model);

    assert.equal(textOf(chunks), model.startsWith("mock-bytes") ? "Grüße, 世界! 🦊 – déjà vu" : hello);
    assert.equal(finishOf(chunks), "stop");
  });
}

test("a stream carries usage on request, or when the provider always sends it", async () => {
  const unasked = await streamOf("mock-text");
  const asked = await streamOf("mock-text", true);
  const none = await streamOf("mock-no-usage", true);
  const always = await streamOf("mock-usage-unasked");
  const cached = await streamOf("mock-usage-cached", true);

  assert.ok(unasked.every((chunk) => chunk.usage == null));
  assert.equal(asked.at(-1)?.usage?.completion_tokens, 5);
  assert.deepEqual(asked.at(-1)?.choices, []);
  assert.ok(none.every((chunk) => chunk.usage == null));
  assert.equal(always.at(-1)?.usage?.total_tokens, 55);
  assert.equal(cached.at(-1)?.usage?.prompt_tokens_details?.cached_tokens, 30);
});

for (const [model, reason] of [
  ["mock-finish-length", "length"],
  ["mock-finish-content-filter", "content_filter"],
  ["mock-finish-tool-calls", "tool_calls"],
  ["mock-no-finish", undefined],
] as const) {
  test(`${model} ends with ${reason}`, async () => {
    const chunks = await streamOf(model);

    assert.equal(finishOf(chunks), reason);
  });
}

test("plain answers have text, calls, reasoning and usage in one object", async () => {
  const text = await client.chat.completions.create({ model: "mock-reasoning", messages: [...question] });
  const calls = await client.chat.completions.create({ model: "mock-tools-parallel", messages: [...question] });

  assert.equal(text.choices[0]?.message.content, hello);
  assert.equal(
    (text.choices[0]?.message as { reasoning_content?: string } | undefined)?.reasoning_content,
    "Let me think.",
  );
  assert.equal(text.usage?.completion_tokens, 7);
  assert.equal(calls.choices[0]?.finish_reason, "tool_calls");
  assert.equal(calls.choices[0]?.message.content, null);
  assert.deepEqual(
    calls.choices[0]?.message.tool_calls?.map((call) => call.type === "function" && call.function.arguments),
    ['{"expression":"1+1"}', '{"expression":"2+2"}'],
  );
});

test("fragments of parallel calls are joined by their index, with gaps", async () => {
  const chunks = await streamOf("mock-tools-gaps");

  const calls = new Map<number, { id: string | undefined; name: string | undefined; text: string }>();
  const order: number[] = [];
  for (const delta of chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? [])) {
    order.push(delta.index);
    const call = calls.get(delta.index) ?? { id: delta.id, name: delta.function?.name, text: "" };
    call.text += delta.function?.arguments ?? "";
    calls.set(delta.index, call);
  }
  assert.deepEqual([...calls.keys()], [1, 4]);
  assert.deepEqual(order, [1, 4, 1, 4, 1, 4, 1, 4]);
  assert.deepEqual(calls.get(1), { id: "call_a", name: "calculator", text: '{"expression":"1+1"}' });
  assert.deepEqual(calls.get(4), { id: "call_b", name: "calculator", text: '{"expression":"2+2"}' });
  assert.equal(finishOf(chunks), "tool_calls");
});

test("mock-steps calls the calculator that often per user message, then answers", async () => {
  const call = { id: "call_1", type: "function" as const, function: { name: "calculator", arguments: "{}" } };
  const step = [
    { role: "assistant" as const, tool_calls: [call] },
    { role: "tool" as const, tool_call_id: "call_1", content: "2" },
  ];
  const ended = async (steps: number) => {
    const before = [...question, ...step, ...step, ...step];
    const messages = [...before, ...question, ...Array.from({ length: steps }, () => step).flat()];
    const answer = await client.chat.completions.create({ model: "mock-steps-3", messages });
    return answer.choices[0]?.finish_reason;
  };

  assert.deepEqual(await Promise.all([0, 2, 3].map(ended)), ["tool_calls", "tool_calls", "stop"]);
});

test("mock-tools calls the calculator and answers in text when it has the result", async () => {
  const first = await streamOf("mock-tools");
  const second = await client.chat.completions.create({
    model: "mock-tools",
    messages: [
      ...question,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "calculator", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "42" },
    ],
  });

  assert.equal(finishOf(first), "tool_calls");
  assert.equal(second.choices[0]?.message.content, loadTokens.join(""));
});

test("reasoning comes in separate deltas before the text", async () => {
  const chunks = await streamOf("mock-reasoning");

  const reasoning = chunks.map(
    (chunk) => (chunk.choices[0]?.delta as { reasoning_content?: string })?.reasoning_content ?? "",
  );
  assert.equal(reasoning.join(""), "Let me think.");
  assert.equal(textOf(chunks), hello);
});

test("mock-echo returns the request", async () => {
  const chunks = await streamOf("mock-echo");

  assert.deepEqual(JSON.parse(textOf(chunks)).messages, question);
});

test("a giant chunk is one delta", async () => {
  const chunks = await streamOf("mock-giant-chunk-300000");

  const deltas = chunks.map((chunk) => chunk.choices[0]?.delta.content?.length ?? 0).filter((length) => length > 0);
  assert.deepEqual(deltas, [300_000]);
});

for (const [status, error] of [
  [400, OpenAI.BadRequestError],
  [401, OpenAI.AuthenticationError],
  [404, OpenAI.NotFoundError],
  [429, OpenAI.RateLimitError],
  [500, OpenAI.InternalServerError],
  [503, OpenAI.InternalServerError],
] as const) {
  test(`mock-status-${status} is an error of its class with the provider's code`, async () => {
    const refused = streamOf(`mock-status-${status}`);

    await assert.rejects(refused, (thrown) => {
      assert.ok(thrown instanceof error);
      assert.equal(thrown.status, status);
      assert.equal(thrown.code, `mock_${status}`);
      return true;
    });
  });
}

test("Retry-After comes in seconds or as a date", async () => {
  const seconds = await client.chat.completions
    .create({ model: "mock-retry-after-7", messages: [...question] })
    .asResponse()
    .catch((error) => error);
  const date = await client.chat.completions
    .create({ model: "mock-retry-date-60", messages: [...question] })
    .asResponse()
    .catch((error) => error);

  assert.equal(seconds.headers.get("retry-after"), "7");
  const untilMs = Date.parse(date.headers.get("retry-after")) - Date.now();
  assert.ok(untilMs > 0 && untilMs <= 60_000, String(untilMs));
});

test("mock-flaky fails as often as its name says and then answers", async () => {
  const outcomes: (string | number)[] = [];
  for (let n = 0; n < 4; n += 1) {
    outcomes.push(await streamOf("mock-flaky-2").then(textOf, (error) => error.status));
  }

  assert.deepEqual(outcomes, [503, 503, hello, hello]);
});

test("an error object in the stream reaches the client as an error", async () => {
  await assert.rejects(streamOf("mock-error-in-stream"), /The mock broke/);
});

test("malformed events are on the wire as written", async () => {
  const response = await fetch(`${server.url}/chat/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "mock-malformed", stream: true }),
  });
  const text = await response.text();

  for (const junk of ["data: {broken\n\n", "data: [1\n\n", "neither field nor comment\n\n", "data: 7\n\n"])
    assert.ok(text.includes(junk), junk);
  assert.ok(text.includes("Hello"));
  assert.ok(text.endsWith("data: [DONE]\n\n"));
  await assert.rejects(streamOf("mock-malformed"));
});

for (const model of ["mock-truncated", "mock-reset", "mock-reset-before-head"]) {
  test(`${model} cuts the connection and leaves the server running`, async () => {
    await assert.rejects(streamOf(model));

    assert.equal(textOf(await streamOf("mock-text")), hello);
  });
}

for (const model of ["mock-wrong-type", "mock-not-json"]) {
  test(`${model} is no completion`, async () => {
    const response = await fetch(`${server.url}/chat/completions`, { method: "POST", body: JSON.stringify({ model }) });

    assert.equal(response.status, 200);
    await assert.rejects(response.json());
  });
}

test("a hanging answer ends with its client, and the test is notified", async () => {
  const fresh = await startMockModel();
  const impatient = new OpenAI({ apiKey: "key", baseURL: fresh.url, maxRetries: 0 });
  const endings: string[] = [];

  for (const model of ["mock-hang", "mock-hang-between", "mock-endless", "mock-endless-slow"]) {
    const leave = new AbortController();
    const running = impatient.chat.completions
      .create({ model, messages: [...question], stream: true }, { signal: leave.signal })
      .then((stream) => Array.fromAsync(stream))
      .catch(() => undefined);
    const request = await fresh.next();
    leave.abort();
    await running;
    endings.push(await request.ended);
  }

  assert.deepEqual(endings, ["gone", "gone", "gone", "gone"]);
  await fresh.close();
});

test("a test sets a model's answers in order, and can delay one", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const event = (content: string) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
  server.answer(
    "my-model",
    failure(500),
    { steps: [{ send: event("one") }, { hold: promise }, { send: event("two") }] },
    (request) => ({ text: `request ${request.earlier}` }),
  );

  const first = await streamOf("my-model").catch((error) => error.status);
  const held = await client.chat.completions.create({ model: "my-model", messages: [...question], stream: true });
  const pieces = held[Symbol.asyncIterator]();
  const before = (await pieces.next()).value?.choices[0]?.delta.content;
  resolve();
  const afterwards = (await pieces.next()).value?.choices[0]?.delta.content;
  const third = textOf(await streamOf("my-model"));
  const fourth = textOf(await streamOf("my-model"));

  assert.deepEqual([first, before, afterwards, third, fourth], [500, "one", "two", "request 2", "request 3"]);
});

test("requests are recorded with headers and body, and next gives each once", async () => {
  const fresh = await startMockModel({ apiKey: "right" });
  const right = new OpenAI({ apiKey: "right", baseURL: fresh.url, maxRetries: 0 });
  const wrong = new OpenAI({ apiKey: "wrong", baseURL: fresh.url, maxRetries: 0 });
  const waiting = fresh.next();

  await assert.rejects(
    wrong.chat.completions.create({ model: "mock-text", messages: [...question] }),
    OpenAI.AuthenticationError,
  );
  await right.chat.completions.create({ model: "mock-text", messages: [...question], temperature: 0.5 });
  await right.chat.completions.create({ model: "mock-nothing", messages: [...question] }).catch(() => undefined);
  const first = await waiting;
  const second = await fresh.next();

  assert.equal(fresh.requests.length, 2);
  assert.equal(first.model, "mock-text");
  assert.equal(first.headers.authorization, "Bearer right");
  assert.equal(first.body.temperature, 0.5);
  assert.deepEqual(JSON.parse(first.text), first.body);
  assert.equal(await first.ended, "sent");
  assert.equal(second.model, "mock-nothing");
  await fresh.close();
});

test("models are listed, and an unknown path or method is 404 or 405", async () => {
  const listed = await Array.fromAsync(client.models.list());
  const unknown = await client.chat.completions
    .create({ model: "gpt-9", messages: [...question] })
    .catch((error) => error);
  const elsewhere = await fetch(`${server.url}/images`, { method: "POST", body: "{}" });
  const wrongMethod = await fetch(`${server.url}/chat/completions`);

  for (const name of behaviourNames())
    assert.ok(
      listed.some((model) => model.id === name),
      name,
    );
  assert.ok(unknown instanceof OpenAI.NotFoundError);
  assert.equal(elsewhere.status, 404);
  assert.equal(wrongMethod.status, 405);
});

test("one connection serves many turns, split and joined requests included", async () => {
  const body = JSON.stringify({ model: "mock-burst", stream: true });
  const request = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const socket = connect(server.port, "127.0.0.1");
  let answers = 0;
  const three = new Promise<void>((resolve) => {
    socket.on("data", (bytes) => {
      answers += bytes.toString().split("data: [DONE]").length - 1;
      if (answers === 3) resolve();
    });
  });

  socket.write(request.slice(0, 30));
  socket.write(request.slice(30) + request + request.slice(0, -5));
  socket.write(request.slice(-5));
  await three;

  assert.equal(answers, 3);
  socket.destroy();
});

for (const [problem, bytes] of [
  ["a chunked body", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"],
  ["an endless head", `POST / HTTP/1.1\r\nX: ${"x".repeat(70_000)}`],
  ["a huge body", "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n"],
] as const) {
  test(`${problem} is refused and the connection closed`, async () => {
    const socket = connect(server.port, "127.0.0.1");
    socket.write(bytes);

    const answer = (await socket.toArray()).join("");

    assert.match(answer, /^HTTP\/1\.1 400 /);
  });
}
