// POST /v1/embeddings over real sockets: inputs, the batches sent to providers, reports of failing, lying or silent
// providers, usage, and disconnecting clients.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChatProcess } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { jsonScript } from "../../support/mock-model/answer.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import { base64Of, embeddingScript, vectorOf } from "../../support/mock-model/embeddings.ts";
import type { Script } from "../../support/mock-model/script.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["chat:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  crowd: { tenant_id: "crowd", scopes: ["*"] },
});

/** A provider's answer with this value as its vector. */
const answerWith = (embedding: unknown, more: object = {}): Script =>
  jsonScript(200, { object: "list", data: [{ object: "embedding", index: 0, embedding }], ...more });
const nan = base64Of(Float32Array.of(0.5, Number.NaN));

/** Invalid answers of providers, with the expected report. */
const broken: Readonly<Record<string, readonly [Script, RegExp]>> = {
  "a NaN in bytes": [answerWith(nan), /no number in it/],
  "an infinity in bytes": [answerWith(base64Of(Float32Array.of(Number.NEGATIVE_INFINITY))), /no number in it/],
  "a null among the numbers": [answerWith([0.5, null]), /no list of numbers/],
  "texts for numbers": [answerWith(["0.5", "1"]), /no list of numbers/],
  "an object for a vector": [answerWith({ 0: 1 }), /no list of numbers/],
  "bytes that are no floats": [answerWith("AAAA"), /cut off/],
  "bytes that are no base64": [answerWith("no!base64"), /not base64/],
  "an empty vector": [answerWith([]), /1 to 16384 dimensions/],
  "a vector of too many dimensions": [answerWith(new Array(16_385).fill(0)), /1 to 16384 dimensions/],
  "no vector": [jsonScript(200, { object: "list", data: [] }), /not one vector for each of the 1 inputs/],
  "two vectors": [
    jsonScript(200, {
      data: [
        { index: 0, embedding: [1] },
        { index: 1, embedding: [1] },
      ],
    }),
    /not one vector for each of the 1 inputs/,
  ],
  "a vector of nobody": [jsonScript(200, { data: [{ index: 7, embedding: [1] }] }), /belongs to no input/],
  "a list of nothing": [jsonScript(200, { data: [null] }), /is none/],
  "no data": [jsonScript(200, { object: "list" }), /not one vector/],
  "no object": [jsonScript(200, 7), /not an object/],
  "no JSON": [
    { headers: { "content-type": "text/html" }, framing: "length", steps: [{ send: "<h1>It works!</h1>" }] },
    /not JSON/,
  ],
  "a stream": [{ headers: { "content-type": "text/event-stream" }, steps: [{ send: "data: {}\n\n" }] }, /not JSON/],
  "an error in the place of vectors": [jsonScript(200, { error: { message: "I broke." } }), /I broke\./],
};

/** A row of GET /usage. */
interface Row {
  readonly tokens_input: number;
  readonly meta_json: string;
}

const isEstimated = ({ meta_json }: Row): boolean => JSON.parse(meta_json).estimated === true;

describe("POST /v1/embeddings", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const to = (model: string, more: object = {}) => ({ provider: "openai", model, kind: "embedding", ...more });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["agent"],
      manifests: { agent: {}, confused: { model: { id: "vectors" } } },
      routes: {
        vectors: to("wire-vectors", { price: { input: 2 } }),
        ...Object.fromEntries(
          [
            "plain",
            "long",
            "huge",
            "digits",
            "untold",
            "unmetered",
            "failing",
            "flaky",
            "slow",
            "crowded",
            "cut",
            "early",
            ...Object.keys(broken).map((_, at) => `broken-${at}`),
          ].map((name) => [name, to(name)]),
        ),
        silent: { provider: "groq", model: "silent", kind: "embedding" },
        keyless: { provider: "xai", model: "x", kind: "embedding" },
      },
      providers: { groq: { api_key: "groq-key", timeout: 0.2 } },
      env,
    }));
  });

  const ask = (model: string, input: unknown, fields: object = {}, key: string = keys.ann) =>
    server.post("/v1/embeddings", { model, input, ...fields }, { key });
  const callsOf = (model: string) => mock.requests.filter((request) => request.model === model);
  const usageOf = async (model: string, key: string = keys.ann) =>
    (await server.get("/usage?limit=200", { key })).json.items.filter(
      ({ model_id }: { model_id: string }) => model_id === model,
    );
  const inputsOf = (request: MockModel["requests"][number] | undefined) => request?.body.input as readonly unknown[];

  test("many texts are several provider calls, with vectors in the order of the texts", async () => {
    mock.answer("long", ({ body }) => embeddingScript(body, { dimensions: 1_536 }));
    const input = Array.from({ length: 2_048 }, (_, at) => `text ${at}`);

    const { status, json } = await ask("long", input, { encoding_format: "base64" });

    assert.equal(status, 200);
    assert.equal(json.data.length, 2_048);
    for (const at of [0, 23, 24, 1_000, 2_047])
      assert.deepEqual(json.data[at], {
        object: "embedding",
        index: at,
        embedding: base64Of(vectorOf(`text ${at}`, 1_536)),
      });
    assert.equal(json.usage.prompt_tokens, 2 * 2_048);
    const sizes = callsOf("long").map((request) => inputsOf(request).length);
    assert.equal(sizes[0], 24, "one call says how long the vectors are");
    assert.ok(sizes.every((size) => size <= 96) && sizes.length <= 24, sizes.join());
    assert.deepEqual(new Set(callsOf("long").flatMap(inputsOf)), new Set(input));
  });

  test("a provider that sends digits is accepted, and gets fewer inputs per call", async () => {
    mock.answer("digits", ({ body }) => embeddingScript(body, { dimensions: 4_096, digits: true }));
    const input = Array.from({ length: 60 }, (_, at) => `text ${at}`);

    const { status, json } = await ask("digits", input);

    assert.equal(status, 200);
    assert.deepEqual(json.data[59].embedding, [...vectorOf("text 59", 4_096)]);
    assert.deepEqual(
      callsOf("digits").map((request) => inputsOf(request).length),
      [24, 16, 16, 4],
    );
  });

  test("long texts are sent in separate calls", async () => {
    await ask("plain", "what form the vectors have");
    const long = "word ".repeat(20_000);

    const { status } = await ask("plain", [long, "short", long, "short"]);

    assert.equal(status, 200);
    assert.deepEqual(
      callsOf("plain")
        .slice(1)
        .map((request) => inputsOf(request).length),
      [2, 2],
    );
  });

  test("a provider that refuses the encoding parameter does not get it again", async () => {
    mock.answer("untold", ({ body }) =>
      "encoding_format" in body
        ? jsonScript(400, { error: { message: "Unrecognized request argument: encoding_format" } })
        : embeddingScript(body),
    );

    const first = await ask("untold", "one");
    const second = await ask("untold", "two", { dimensions: 3 });

    assert.deepEqual(first.json.data[0].embedding, [...vectorOf("one")]);
    assert.deepEqual(second.json.data[0].embedding, [...vectorOf("two", 3)]);
    assert.deepEqual(
      callsOf("untold").map(({ body }) => [body.encoding_format, body.dimensions]),
      [
        ["base64", undefined],
        [undefined, undefined],
        [undefined, 3],
      ],
    );
  });

  test("usage is a row of its own tenant before the answer is sent", async () => {
    const { json } = await ask("vectors", ["three words here", "two words"], {}, keys.stranger);
    await server.kill();
    await server.restart();

    assert.deepEqual(json.usage, { prompt_tokens: 5, total_tokens: 5 });
    const [row, ...others] = await usageOf("vectors", keys.stranger);
    assert.deepEqual(others, []);
    const { tokens_input, tokens_output, cost_usd, thread_id, manifest_id, wire_model_id, meta_json } = row;
    assert.deepEqual(
      { tokens_input, tokens_output, cost_usd, thread_id, manifest_id, wire_model_id },
      {
        tokens_input: 5,
        tokens_output: 0,
        cost_usd: 1e-5,
        thread_id: "",
        manifest_id: "",
        wire_model_id: "wire-vectors",
      },
    );
    assert.equal(JSON.parse(meta_json).estimated, undefined);
    assert.deepEqual(await usageOf("vectors"), []);
  });

  test("usage that the provider does not report is estimated", async () => {
    mock.answer("unmetered", ({ body }) => embeddingScript(body, { usage: null }));

    const { json } = await ask("unmetered", ["x".repeat(400), [1, 2, 3]].slice(0, 1));
    const tokens = await ask("unmetered", [[1, 2, 3]]);

    assert.deepEqual([json.usage.prompt_tokens, tokens.json.usage.prompt_tokens], [100, 3]);
    const rows = await usageOf("unmetered");
    assert.deepEqual(
      rows.map((row: Row) => [row.tokens_input, isEstimated(row)]),
      [
        [3, true],
        [100, true],
      ],
    );
  });

  test("an invalid answer of a provider is reported, not forwarded and not counted", async () => {
    const all = await Promise.all(
      Object.entries(broken).map(async ([what, [script, words]], at) => {
        mock.answer(`broken-${at}`, script);
        return { what, words, ...(await ask(`broken-${at}`, "text")) };
      }),
    );

    for (const { what, words, status, json } of all) {
      const { message, type, code } = json.error;
      assert.deepEqual([status, type, code], [502, "model_gateway_error", "model_provider_error"], what);
      assert.match(message, words, what);
    }
    assert.ok((await Promise.all(all.map((_, at) => usageOf(`broken-${at}`)))).every(({ length }) => length === 0));
  });

  test("vectors of wrong or different dimensions are not forwarded", async () => {
    mock.answer("failing", ({ body }) => embeddingScript({ ...body, dimensions: 4 }));
    const wanted = await ask("failing", "text", { dimensions: 5 });
    mock.answer("failing", ({ body }) => embeddingScript({ ...body, dimensions: (body.input as unknown[]).length }));
    const apart = await ask(
      "failing",
      Array.from({ length: 30 }, (_, at) => `text ${at}`),
    );

    assert.match(wanted.json.error.message, /4 dimensions, not 5/);
    assert.equal(apart.status, 502);
    assert.match(apart.json.error.message, /not of one length/);
  });

  test("an answer that does not end is given up", async () => {
    const endless = `{"data":[{"embedding":[${"0.123456789,".repeat(10_000)}`;
    mock.answer("failing", {
      headers: { "content-type": "application/json" },
      steps: [{ endless, gapMs: 0, bytesMax: 64 * 1024 * 1024 }],
    });

    const { status, json } = await ask("failing", "text");

    assert.deepEqual([status, json.error.message], [502, "the answer is too long"]);
    assert.equal(await callsOf("failing").at(-1)?.ended, "gone");
  });

  test("the provider's refusal is reported in its words, without key or address", async () => {
    const words = "Too many tokens for http://10.0.0.1/x with mock-provider-key.";
    mock.answer("failing", jsonScript(400, { error: { message: words } }));

    const { status, json } = await ask("failing", "text");

    assert.equal(status, 400);
    const { message, type, code } = json.error;
    assert.deepEqual([type, code], ["invalid_request_error", "embedding_refused"]);
    assert.equal(message, "status 400: Too many tokens for [address] with [REDACTED].");
  });

  test("a refusal of the operator's key is not reported as the caller's", async () => {
    mock.answer("failing", failure(401));

    const { status, json } = await ask("failing", "text");

    assert.deepEqual([status, json.error.code], [502, "model_provider_error"]);
  });

  test("a failing provider is retried, and a silent one is given up", async () => {
    mock.answer("flaky", failure(503), ({ body }) => embeddingScript(body));
    mock.answer("silent", { steps: [{ hold: "forever" }] });

    const flaky = await ask("flaky", "text");
    const silent = await ask("silent", "text");

    assert.deepEqual([flaky.status, callsOf("flaky").length], [200, 2]);
    assert.deepEqual([silent.status, silent.json.error.message], [502, "no answer within 0.2 seconds"]);
    assert.equal(callsOf("silent").length, 1);
  });

  test("a later failed call is an ordinary error while little is buffered", async () => {
    mock.answer("early", ({ body }) => embeddingScript(body, { dimensions: 1_536 }), failure(400));
    const input = Array.from({ length: 200 }, (_, at) => `text ${at}`);

    const { status, json } = await ask("early", input, { encoding_format: "base64" });

    assert.deepEqual([status, json.error.code], [400, "embedding_refused"]);
    // Calls run ahead of the failing one, and a call that ends with it counts by estimate.
    const reported = (await usageOf("early")).filter((row: Row) => !isEstimated(row));
    assert.equal(reported.length, 1, "what was used by then is counted");
  });

  test("a started answer is cut off when a later call fails, so it is never complete", async () => {
    let calls = 0;
    mock.answer("huge", ({ body }) => (++calls > 30 ? failure(400) : embeddingScript(body, { dimensions: 8_192 })));
    const input = Array.from({ length: 1_200 }, (_, at) => `text ${at}`);

    await assert.rejects(ask("huge", input, { encoding_format: "base64" }), /aborted|socket hang up|ECONNRESET/);

    assert.ok(calls > 30);
  });

  test("no further provider call starts after a disconnect, and the current one counts", async () => {
    mock.answer("slow", ({ body, earlier }) =>
      earlier === 0 ? embeddingScript(body) : { steps: [{ hold: "forever" }] },
    );
    const input = Array.from({ length: 400 }, (_, at) => `text ${at} `);
    const leaving = new AbortController();
    const gone = fetch(`${server.url}/v1/embeddings`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.ann}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "slow", input }),
      signal: leaving.signal,
    }).catch((error: unknown) => error);
    const pending = await eventually("calls that wait", async () => {
      const found = callsOf("slow").slice(1);
      return found.length === 3 ? found : undefined;
    });

    leaving.abort();
    await gone;

    assert.deepEqual(await Promise.all(pending.map(({ ended }) => ended)), ["gone", "gone", "gone"]);
    const rows = await eventually("rows of calls that were ended", async () => {
      const found = await usageOf("slow");
      return found.length === 4 ? found : undefined;
    });
    assert.deepEqual(rows.map(isEstimated).sort(), [false, true, true, true]);
    assert.equal(callsOf("slow").length, 4);
  });

  test("a tenant's crowd delays no other tenant, and is bounded", async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    mock.answer("crowded", ({ body }) => {
      const script = embeddingScript(body);
      return (body.input as string[])[0] === "mine"
        ? script
        : { ...script, framing: "chunked", steps: [{ hold: opened }, ...script.steps] };
    });
    const ofCrowd = () => callsOf("crowded").filter((request) => inputsOf(request)[0] === "theirs");
    const answered: Awaited<ReturnType<typeof ask>>[] = [];
    const crowd = Array.from({ length: 65 }, async () => {
      const answer = await ask("crowded", "theirs", {}, keys.crowd);
      answered.push(answer);
      return answer;
    });
    await eventually("one that is refused", async () => answered[0]);
    await eventually("eight at once", async () => ofCrowd().length >= 8);
    const mine = await ask("crowded", "mine");
    const atOnce = ofCrowd().length;
    open();
    const answers = await Promise.all(crowd);

    const refused = answers.filter(({ status }) => status !== 200);
    assert.deepEqual(
      refused.map(({ status, json }) => [status, json.error.code]),
      [[503, "mailbox_full"]],
    );
    assert.equal(mine.status, 200);
    assert.equal(atOnce, 8);
  });

  const tooMany = Array.from({ length: 2_049 }, () => "x");
  for (const [what, body] of Object.entries({
    "no input": { model: "vectors" },
    "an empty text": { model: "vectors", input: "" },
    "an empty text among others": { model: "vectors", input: ["a", ""] },
    "an empty list": { model: "vectors", input: [] },
    "2,049 texts": { model: "vectors", input: tooMany },
    "texts and tokens": { model: "vectors", input: ["a", 1] },
    "a token that is none": { model: "vectors", input: [1.5] },
    "another format": { model: "vectors", input: "a", encoding_format: "int8" },
    "no dimensions": { model: "vectors", input: "a", dimensions: 0 },
    "too many dimensions": { model: "vectors", input: "a", dimensions: 16_385 },
  }))
    test(`refused without a call: ${what}`, async () => {
      const { length } = mock.requests;

      const { status, json } = await server.post("/v1/embeddings", body, { key: keys.ann });

      assert.equal(status, 400);
      assert.equal(json.error.type, "invalid_request_error");
      assert.match(json.error.param, /^(input|encoding_format|dimensions)/);
      assert.equal(mock.requests.length, length);
    });

  test("callers without a key, with a read-only key or a body over the limit are refused", async () => {
    const nobody = await server.post("/v1/embeddings", { model: "vectors", input: "a" });
    const reader = await ask("vectors", "a", {}, keys.reader);
    const large = await ask("vectors", "x".repeat(1024 * 1024));

    assert.deepEqual([nobody.status, large.status], [401, 413]);
    assert.equal(reader.status, 200, "without SVC_CHAT_SCOPES any scope chats");
  });

  test("routes without a key or a name, and chat routes, are refused", async () => {
    const keyless = await ask("keyless", "a");
    const chat = await ask("agent", "a");
    const turn = await server.post(
      "/v1/chat/completions",
      { model: "confused", messages: [{ role: "user", content: "hi" }] },
      { key: keys.ann },
    );
    const models = await server.get("/v1/models", { key: keys.ann });

    assert.deepEqual([keyless.status, keyless.json.error.code], [503, "model_not_configured:xai"]);
    assert.deepEqual([chat.status, chat.json.error.code], [404, "unknown_embedding_model:agent"]);
    assert.equal(turn.status, 422, "an embedding route is no model of an agent");
    assert.deepEqual(
      models.json.data.map(({ id }: { id: string }) => id).includes("vectors"),
      false,
      "the list has manifests",
    );
  });

  test("calls are counted by route and outcome", async () => {
    const { text } = await server.get("/metrics", { key: keys.ann });

    assert.match(text, /svc_model_call_seconds_count\{model="slow",status="aborted"\} 3/);
    assert.match(text, /svc_tokens_total\{manifest_id="",model="slow",kind="input"\}/);
  });
});
