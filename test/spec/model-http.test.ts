// Model failures over HTTP, on every entry point: fallbacks, retries, timeouts and broken answers.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, chunk, inTurn, outline, shown, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const spent = { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 };
/** Models whose answer breaks after its first word, with the error text. */
const breaks = {
  "mock-truncated": "the connection was lost",
  unfinished: "the stream ended before the answer did",
  "mock-reset": "the connection was lost",
  "mock-error-in-stream": "The mock broke.",
  malformed: "a line of the stream is not JSON",
} as const;
/** Models that give no answer, with the error text. */
const refusals = {
  "mock-status-400": "status 400: The mock answers 400.",
  "mock-status-401": "status 401: The mock answers 401.",
  "mock-status-404": "status 404: The mock answers 404.",
  "mock-status-422": "status 422: The mock answers 422.",
  "mock-retry-after-3600": "status 429: The mock answers 429.",
  "mock-retry-date-3600": "status 429: The mock answers 429.",
} as const;

/** The body of POST /chat after a model failure: the code under both keys, and the message that streams have. */
const failed = (words: string) =>
  JSON.stringify({
    ...{ error: "model_provider_error", detail: "model_provider_error" },
    message: `model provider failed: ${words}`,
  });

describe("models over HTTP", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const through = (id: string, ...fallbacks: string[]) => ({ model: { id, fallbacks } });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: [
        ...[
          "agent-model",
          "flaky",
          "unsteady",
          "cut-later",
          "leaky",
          "placed",
          "mock-flaky-2",
          "mock-retry-after-0",
          "mock-text",
        ],
        ...["mock-hang", "mock-hang-between", "mock-status-500", "mock-no-done", "mock-wrong-type", "mock-not-json"],
        ...Object.keys(breaks),
        ...Object.keys(refusals),
      ],
      manifests: {
        agent: { tools: ["calculator"] },
        cheaper: through("mock-status-400", "cheap"),
        third: through("mock-status-400", "mock-status-404", "cheap"),
        "no-key-between": through("mock-status-400", "keyless", "cheap"),
        "none-left": through("mock-status-400", "mock-status-404"),
        "too-late": through("mock-truncated", "cheap"),
        impatient: through("mock-retry-after-3600", "cheap"),
        lost: through("placed"),
        silent: through("mock-hang-in-groq", "cheap"),
        "later-step": { ...through("cut-later", "cheap"), tools: ["calculator"] },
      },
      routes: {
        cheap: { provider: "openai", model: "cheap-wire", price: { input: 1, output: 1 } },
        keyless: { provider: "xai", model: "x" },
        "mock-hang-in-groq": { provider: "groq", model: "mock-hang" },
        "mock-hang-between-in-groq": { provider: "groq", model: "mock-hang-between" },
      },
      providers: { groq: { api_key: "groq-key", timeout: 0.2 } },
    }));
    mock.answer("cheap-wire", { text: "The cheap answer.", usage: spent });
    mock.answer("unfinished", { steps: [{ send: chunk({ content: "Hello" }, null) }] });
    mock.answer("malformed", { steps: [{ send: `${chunk({ content: "Hello" }, null)}data: {broken\n\n` }] });
  });

  const asked = (from: number) => mock.requests.slice(from).map(({ model }) => model);
  async function stream(manifest: string, fields: object = {}) {
    const opened = await server.stream("/chat/stream", turn(manifest, "go", fields));
    assert.equal(opened.status, 200);
    const frames = await opened.rest();
    const data = (event: string) => frames.find(({ name }) => name === event)?.json.data;
    return { frames, done: data("done"), failure: data("on_error")?.message };
  }
  const completion = (model: string, fields: object = {}) => ({
    model,
    messages: [{ role: "user", content: "go" }],
    ...fields,
  });
  async function metric(name: string, labels: string): Promise<number> {
    const { text } = await server.get("/metrics");
    const line = text.split("\n").find((each) => each.startsWith(`${name}{${labels}}`));
    return line === undefined ? 0 : Number(line.split(" ").at(-1));
  }

  test("SPEC-016 a fallback answers where the model fails, and is recorded at its own rates", async () => {
    const { status, json } = await server.post("/chat", turn("cheaper", "go", { thread_id: "fallback" }));
    const usage = await server.get("/usage?thread_id=fallback");
    const events = await server.get("/chat/sessions/fallback");

    assert.deepEqual([status, json.final.content, json.model], [200, "The cheap answer.", "cheap"]);
    assert.equal(json.usage.cost.total, 0.0015);
    assert.deepEqual(
      usage.json.items.map((row: Record<string, unknown>) => [row.model_id, row.wire_model_id, row.cost_usd]),
      [["cheap", "cheap-wire", 0.0015]],
    );
    assert.equal(events.json.transcript.at(-1).metadata.model, "cheap");
  });

  test("SPEC-016 fallbacks are tried in their order, and one without a credential is skipped", async () => {
    const labels = (from: string, to: string) => `from="${from}",to="${to}",reason="provider_error"`;
    const before = await metric("svc_model_switch_total", labels("mock-status-404", "cheap"));

    const from = mock.requests.length;
    const third = await stream("third");
    const over = mock.requests.length;
    const keyless = await stream("no-key-between");

    assert.deepEqual(asked(from).slice(0, 3), ["mock-status-400", "mock-status-404", "cheap-wire"]);
    assert.deepEqual(asked(over), ["mock-status-400", "cheap-wire"]);
    for (const { frames, done } of [third, keyless]) {
      assert.deepEqual(outline(frames), ["session_progress", "text", "on_chain_end", "done", "[DONE]"]);
      assert.equal(done.final.content, "The cheap answer.");
    }
    assert.equal(await metric("svc_model_switch_total", labels("mock-status-404", "cheap")), before + 1);
  });

  test("SPEC-016 fallbacks answer on /v1 too, whose model stays the manifest", async () => {
    const { status, json } = await server.post("/v1/chat/completions", completion("cheaper"));

    assert.deepEqual([status, json.model], [200, "cheaper"]);
    assert.equal(json.choices[0].message.content, "The cheap answer.");
    assert.deepEqual([json.usage.prompt_tokens, json.usage.completion_tokens], [1_000, 500]);
  });

  test("SPEC-016 every step of a turn starts at the manifest's model, and may fall back", async () => {
    const first = { ...calls(["calculator", { expression: "6*7" }]), usage: spent };
    const broken = { status: 400, headers: { "content-type": "application/json" }, steps: [{ send: "{}" }] };
    mock.answer("cut-later", inTurn(first, broken));
    const from = mock.requests.length;

    const { json } = await server.post("/chat", turn("later-step", "go", { thread_id: "later-step" }));
    const { items } = (await server.get("/usage?thread_id=later-step")).json;

    assert.deepEqual(asked(from), ["cut-later", "cut-later", "cheap-wire"]);
    assert.deepEqual([json.final.content, json.model], ["The cheap answer.", "cheap"]);
    assert.deepEqual(shown(mock.requests.at(-1)).at(-1)?.content, "42");
    // 1,000 input and 500 output tokens cost 0.006 at the first model's rates and 0.0015 at the fallback's.
    assert.deepEqual(items.map((row: Record<string, unknown>) => [row.model_id, row.cost_usd]).reverse(), [
      ["cut-later", 0.006],
      ["cheap", 0.0015],
    ]);
    assert.equal(json.usage.cost.total, 0.0075);
  });

  test("ERR-008 the last failure is reported when every model fails, after one call each", async () => {
    const from = mock.requests.length;
    const chat = await server.post("/chat", turn("none-left", "go"));
    const { frames, done, failure } = await stream("none-left");

    assert.deepEqual(asked(from), ["mock-status-400", "mock-status-404", "mock-status-400", "mock-status-404"]);
    assert.deepEqual([chat.status, chat.text], [502, failed("status 404: The mock answers 404.")]);
    assert.deepEqual(outline(frames), ["session_progress", "on_error", "on_chain_end", "done", "[DONE]"]);
    assert.equal(failure, "model provider failed: status 404: The mock answers 404.");
    assert.deepEqual([done.final, done.stop_reason], [null, "unknown"]);
  });

  test("SPEC-016 no fallback answers after the first word, which the client has read", async () => {
    const from = mock.requests.length;
    const { frames, done } = await stream("too-late");

    assert.deepEqual(asked(from), ["mock-truncated"]);
    assert.equal(wordsOf(frames), "Hello");
    assert.deepEqual(done.final, { role: "assistant", content: "Hello" });
  });

  test("a transient failure is retried, and the client sees nothing of it", async () => {
    const labels = 'provider="openai",status="503"';
    const before = await metric("svc_model_retry_total", labels);
    const from = mock.requests.length;

    const { frames, done, failure } = await stream("agent", { model: "mock-flaky-2", thread_id: "flaky" });

    assert.deepEqual(asked(from), Array(3).fill("mock-flaky-2"));
    assert.deepEqual(outline(frames), ["session_progress", "text", "on_chain_end", "done", "[DONE]"]);
    assert.deepEqual([done.final.content, failure], ["Hello from the mock.", undefined]);
    assert.equal(await metric("svc_model_retry_total", labels), before + 2);
    const { json } = await server.get("/usage?thread_id=flaky");
    assert.equal(json.items.length, 1, "only the call that answered is metered");
  });

  test("Retry-After is followed: no pause at zero, and no waiting for an hour", async () => {
    const from = mock.requests.length;
    const now = await stream("agent", { model: "mock-retry-after-0" });
    const afterNow = mock.requests.length;
    const hour = await stream("agent", { model: "mock-retry-after-3600" });
    const date = await stream("agent", { model: "mock-retry-date-3600" });
    const afterHour = mock.requests.length;
    const fallback = await stream("impatient");

    assert.deepEqual(asked(from).slice(0, 3), Array(3).fill("mock-retry-after-0"));
    assert.equal(afterNow - from, 3);
    assert.equal(afterHour - afterNow, 2, "one call each");
    assert.deepEqual(asked(afterHour), ["mock-retry-after-3600", "cheap-wire"]);
    for (const { failure } of [now, hour, date])
      assert.equal(failure, "model provider failed: status 429: The mock answers 429.");
    assert.equal(fallback.done.final.content, "The cheap answer.");
  });

  test("a silent provider times out after one request, and its fallback answers", async () => {
    const before = await metric("svc_model_timeout_total", 'provider="groq"');
    const from = mock.requests.length;
    const alone = await stream("agent", { model: "mock-hang-in-groq" });
    const { done } = await stream("silent");

    assert.deepEqual(asked(from), ["mock-hang", "mock-hang", "cheap-wire"]);
    assert.equal(alone.failure, "model provider failed: no answer within 0.2 seconds");
    assert.equal(done.final.content, "The cheap answer.");
    assert.equal(await mock.requests[from]?.ended, "gone");
    assert.equal(await metric("svc_model_timeout_total", 'provider="groq"'), before + 2);
  });

  test("a provider that stalls mid-answer is dropped, and its text is kept", async () => {
    const fields = { model: "mock-hang-between-in-groq", thread_id: "fell-silent" };
    const { frames, done, failure } = await stream("agent", fields);
    const { json } = await server.get("/chat/sessions/fell-silent");

    assert.deepEqual(outline(frames), ["session_progress", "text", "on_error", "on_chain_end", "done", "[DONE]"]);
    assert.equal(failure, "model provider failed: the answer fell silent for 0.2 seconds");
    assert.deepEqual(done.final, { role: "assistant", content: "Hello" });
    const last = json.transcript.at(-1);
    assert.deepEqual([last.content, last.status], ["Hello", "error"]);
  });

  for (const [model, words] of Object.entries(refusals)) {
    test(`ERR-008 STREAM-044 ${model} is a failure in the form of each surface, asked once`, async () => {
      const from = mock.requests.length;
      const fields = { model, thread_id: `refused-${model}` };
      const chat = await server.post("/chat", turn("agent", "go", fields));
      const { frames, done, failure } = await stream("agent", { model });
      const history = await server.get(`/chat/history/refused-${model}`);

      assert.deepEqual(asked(from), [model, model]);
      assert.deepEqual([chat.status, chat.text], [502, failed(words)]);
      assert.deepEqual(outline(frames), ["session_progress", "on_error", "on_chain_end", "done", "[DONE]"]);
      assert.equal(failure, `model provider failed: ${words}`);
      assert.deepEqual([done.final, done.stop_reason, "usage" in done], [null, "unknown", false]);
      assert.deepEqual(
        history.json.messages.map(({ role, content }: Record<string, unknown>) => [role, content]),
        [["user", "go"]],
      );
    });
  }

  for (const [model, words] of Object.entries(breaks)) {
    test(`ERR-008 STREAM-044 ${model} is a failure mid-answer: its words are kept, and nothing is asked again`, async () => {
      const from = mock.requests.length;
      const chat = await server.post("/chat", turn("agent", "go", { model, thread_id: `broken-${model}` }));
      const { frames, done, failure } = await stream("agent", { model });
      const { json } = await server.get(`/chat/sessions/broken-${model}`);

      assert.deepEqual(asked(from), [model, model]);
      assert.deepEqual([chat.status, chat.text], [502, failed(words)]);
      assert.deepEqual(outline(frames), ["session_progress", "text", "on_error", "on_chain_end", "done", "[DONE]"]);
      assert.equal(failure, `model provider failed: ${words}`);
      assert.deepEqual([done.final, done.stop_reason], [{ role: "assistant", content: "Hello" }, "unknown"]);
      const last = json.transcript.at(-1);
      assert.deepEqual([last.role, last.content, last.status], ["assistant", "Hello", "error"]);
    });
  }

  test("ERR-008 CHAT-039 a failure on /v1 is 502 in the protocol's form, or the stream's last event", async () => {
    const names = ["mock-status-400", "mock-truncated"];
    for (const name of names) {
      const body = { manifest: { metadata: { name: `v1-${name}` }, spec: { model: { id: name } } } };
      assert.equal((await server.request("PUT", `/manifests/v1-${name}`, { body })).status, 200);
    }

    for (const [at, words] of ["status 400: The mock answers 400.", breaks["mock-truncated"]].entries()) {
      const error = {
        message: `model provider failed: ${words}`,
        type: "model_gateway_error",
        param: null,
        code: "model_unavailable",
      };
      const whole = await server.post("/v1/chat/completions", completion(`v1-${names[at]}`));
      const opened = await server.stream("/v1/chat/completions", completion(`v1-${names[at]}`, { stream: true }));
      const events = (await opened.rest()).map(({ data }) => data);

      assert.deepEqual([whole.status, whole.json], [502, { error }]);
      assert.equal(opened.status, 200);
      assert.deepEqual(events.slice(-2), [JSON.stringify({ error }), "[DONE]"]);
      assert.ok(
        !events.slice(0, -2).some((data) => data.includes('"finish_reason":"')),
        "nothing says that it is whole",
      );
    }
  });

  test("a 500 is tried three times and a malformed answer once, then both are reported", async () => {
    for (const [model, tries, words] of [
      ["mock-status-500", 3, "status 500: The mock answers 500."],
      ["mock-not-json", 1, "a line of the stream is not JSON"],
    ] as const) {
      const from = mock.requests.length;
      const { failure } = await stream("agent", { model });

      assert.deepEqual(asked(from), Array(tries).fill(model));
      assert.equal(failure, `model provider failed: ${words}`);
    }
  });

  test("a stream without [DONE] that has its finish reason is a whole answer", async () => {
    const { done, failure } = await stream("agent", { model: "mock-no-done" });

    assert.deepEqual([done.final.content, done.stop_reason, failure], ["Hello from the mock.", "end_turn", undefined]);
  });

  test("a failure in a later step keeps the steps before it, and continue resumes there", async () => {
    const call = calls(["calculator", { expression: "6*7" }]);
    const refused = { status: 400, headers: { "content-type": "application/json" }, steps: [{ send: "{}" }] };
    mock.answer("unsteady", call, refused, { text: "It is 42." });

    const { frames, failure } = await stream("agent", { model: "unsteady", thread_id: "unsteady" });
    const kept = (await server.get("/chat/history/unsteady")).json.messages;
    const again = await server.post("/chat/continue", { thread_id: "unsteady", model: "unsteady" });

    const names = outline(frames);
    assert.deepEqual(names.slice(-4), ["on_error", "on_chain_end", "done", "[DONE]"]);
    assert.equal(failure, "model provider failed: status 400: the provider reported an error");
    assert.deepEqual(
      kept.map(({ role }: { role: string }) => role),
      ["user", "assistant", "tool"],
    );
    assert.deepEqual([again.status, again.json.final.content], [200, "It is 42."]);
    assert.equal(mock.requests.filter(({ model }) => model === "unsteady").length, 3);
    assert.ok(shown(mock.requests.at(-1)).some(({ role, content }) => role === "tool" && content === "42"));
  });

  test("the thread accepts the next message after a failure, with the partial answer", async () => {
    await stream("agent", { model: "mock-truncated", thread_id: "goes-on" });

    const { done } = await stream("agent", { model: "mock-text", thread_id: "goes-on" });

    assert.deepEqual(
      done.messages.map(({ role, content }: Record<string, unknown>) => [role, content]),
      [
        ["user", "go"],
        ["assistant", "Hello"],
        ["user", "go"],
        ["assistant", "Hello from the mock."],
      ],
    );
  });

  test("a key that the provider repeats reaches neither the client nor the log", async () => {
    mock.answer("leaky", {
      status: 400,
      headers: { "content-type": "application/json" },
      steps: [{ send: '{"error":{"message":"Incorrect API key provided: mock-provider-key."}}' }],
    });

    const { failure } = await stream("agent", { model: "leaky", thread_id: "leaky" });
    const { text } = await server.get("/chat/sessions/leaky");

    assert.equal(failure, "model provider failed: status 400: Incorrect API key provided: [REDACTED].");
    assert.ok(!text.includes("mock-provider-key") && !server.output.includes("mock-provider-key"));
  });

  test("an address in a provider's message reaches the operator's log and no client", async () => {
    const host = new URL(mock.url).host;
    const refused = {
      status: 400,
      headers: { "content-type": "application/json" },
      steps: [{ send: JSON.stringify({ error: { message: `no route to llm-7.internal:8443 from ${host}` } }) }],
    };
    mock.answer("placed", refused, refused, refused);

    const { failure, frames } = await stream("agent", { model: "placed", thread_id: "placed" });
    const answer = await server.post("/chat", turn("agent", "hi", { model: "placed" }));
    const openAi = await server.post("/v1/chat/completions", {
      model: "lost",
      messages: [{ role: "user", content: "hi" }],
    });

    assert.equal(failure, "model provider failed: status 400: no route to [address] from [address]");
    assert.deepEqual([answer.status, openAi.status], [502, 502]);
    for (const text of [JSON.stringify(frames), answer.text, openAi.text])
      assert.ok(!text.includes("llm-7") && !text.includes(host), text);
    assert.ok(server.output.includes("llm-7.internal:8443"));
  });

  test("a user's name reaches the model in a valid form, and clients unchanged", async () => {
    const names = ["Ann", "Ann Lee <ann@x>", "a/b\\c|d", "", "n".repeat(128)];
    const messages = names.map((name) => ({ role: "user", name, content: "hi" }));

    const { json } = await server.post("/chat", { manifest: "agent", model: "mock-text", messages });

    const sent = shown(mock.requests.at(-1)) as unknown as { name?: string }[];
    assert.deepEqual(
      sent.map(({ name }) => name),
      ["Ann", "Ann_Lee__ann@x_", "a_b_c_d", undefined, "n".repeat(64)],
    );
    assert.deepEqual(
      json.messages.slice(0, -1).map(({ name }: { name?: string }) => name),
      names,
    );
  });

  test("SPEC-012 temperature is 0.0 and max_tokens unset unless the manifest says otherwise", async () => {
    const put = (name: string, model: object) =>
      server.request("PUT", `/manifests/${name}`, { body: { manifest: { metadata: { name }, spec: { model } } } });
    await put("warm", { id: "mock-text", temperature: 0.7, max_tokens: 300 });
    const from = mock.requests.length;

    await stream("agent", { model: "mock-text" });
    await stream("warm");

    const [plain, warm] = mock.requests.slice(from).map(({ body }) => body);
    assert.equal(plain?.temperature, 0);
    assert.ok(!("max_tokens" in (plain ?? {})) && !("max_completion_tokens" in (plain ?? {})));
    assert.deepEqual([warm?.temperature, warm?.max_completion_tokens ?? warm?.max_tokens], [0.7, 300]);
    for (const model of [{ temperature: -0.1 }, { temperature: 2.1 }, { temperature: "hot" }, { max_tokens: 0 }])
      assert.equal((await put("refused", model)).status, 422, JSON.stringify(model));
  });
});
