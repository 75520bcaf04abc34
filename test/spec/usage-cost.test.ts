// The cost of turns: answers, rows of GET /usage and metrics have the same figures, however a turn ends.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, never, says, startChatProcess, turn } from "../support/chat.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

// USD per million tokens: 2 input, 8 output, 0.5 cache reads, 2 cache writes. The costs are 0.006, and 0.0098 with
// caching.
const plain = { prompt_tokens: 1_000, completion_tokens: 500, total_tokens: 1_500 };
const cached = {
  prompt_tokens: 3_000,
  completion_tokens: 1_000,
  total_tokens: 4_000,
  prompt_tokens_details: { cached_tokens: 2_800, cache_creation_tokens: 0 },
};
/** Cache writes cost 4 USD a million here: 0.001 input, 0.004 output, 0.0001 cache reads and 0.0032 cache writes. */
const kept = {
  prompt_tokens: 1_500,
  completion_tokens: 500,
  total_tokens: 2_000,
  prompt_tokens_details: { cached_tokens: 200, cache_creation_tokens: 800 },
};
const call = calls(["calculator", { expression: "6*7" }]);
const refusal = { status: 400, headers: { "content-type": "application/json" }, steps: [{ send: "{}" }] };

interface Row {
  readonly model_id: string;
  readonly kind: string;
  readonly tokens_input: number;
  readonly tokens_output: number;
  readonly cache_read: number;
  readonly cache_creation: number;
  readonly cost_usd: number;
  readonly estimated?: true;
  readonly meta_json: string;
}

describe("the usage of a turn", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted", "one", "two-steps", "mock-no-usage", "odd"],
      manifests: {
        agent: { tools: ["calculator"] },
        priced: { model: { id: "scripted", price: { input: 3, output: 10 } } },
        brief: { tools: ["calculator"], recursion_limit: 1 },
        // The first call of a turn uses the whole limit.
        capped: { tools: ["calculator"], limits: { max_input_tokens: 1_500 } },
        cheap: { tools: ["calculator"], limits: { max_cost_usd: 0.0083 } },
      },
      routes: {
        keeping: {
          provider: "openai",
          model: "keeping",
          price: { input: 2, output: 8, cache_read: 0.5, cache_write: 4 },
        },
        free: { provider: "openai", model: "one", price: { input: 0, output: 0 } },
      },
    }));
    mock.answer("one", { text: "The answer.", usage: plain });
    mock.answer("two-steps", inTurn({ ...call, usage: plain }, { text: "42.", usage: cached }));
    mock.answer("keeping", inTurn({ ...call, usage: kept }, { text: "42.", usage: kept }));
  });

  const rowsOf = async (thread: string): Promise<Row[]> =>
    (await server.get(`/usage?thread_id=${thread}`)).json.items.reverse();
  async function streamed(thread: string, model: string, behaviour: Behaviour, manifest = "agent") {
    mock.answer("scripted", behaviour);
    const body = turn(manifest, "go", { thread_id: thread, model });
    const frames = await (await server.stream("/chat/stream", body)).rest();
    return frames.find(({ name }) => name === "done")?.json.data;
  }
  async function tokensCounted(kind: string): Promise<number> {
    const { text } = await server.get("/metrics");
    const start = `svc_tokens_total{manifest_id="agent",model="one",kind="${kind}"}`;
    return Number(
      text
        .split("\n")
        .find((line) => line.startsWith(start))
        ?.split(" ")
        .at(-1) ?? 0,
    );
  }

  test("CHAT-037 STREAM-048 USAGE-001 is the same on every surface, and in its row", async () => {
    const usage = {
      input: 1_000,
      output: 500,
      cacheRead: 0,
      cacheWrite: 0,
      totalTokens: 1_500,
      cost: { input: 0.002, output: 0.004, cacheRead: 0, cacheWrite: 0, total: 0.006 },
    };
    const [inBefore, outBefore] = [await tokensCounted("input"), await tokensCounted("output")];

    const chat = await server.post("/chat", turn("agent", "go", { thread_id: "on-chat", model: "one" }));
    const done = await streamed("on-stream", "one", {});
    await server.request("PUT", "/manifests/one", {
      body: { manifest: { metadata: { name: "one" }, spec: { model: { id: "one" } } } },
    });
    const completion = { model: "one", user: "on-v1", messages: [{ role: "user", content: "go" }] };
    const openAi = await server.post("/v1/chat/completions", completion);

    assert.deepEqual(chat.json.usage, usage);
    assert.deepEqual(done.usage, usage);
    assert.deepEqual(openAi.json.usage, {
      prompt_tokens: 1_000,
      completion_tokens: 500,
      total_tokens: 1_500,
      prompt_tokens_details: { cached_tokens: 0 },
    });
    for (const thread of ["on-chat", "on-stream", "on-v1"]) {
      const [row, ...more] = await rowsOf(thread);
      assert.deepEqual([row?.tokens_input, row?.tokens_output, row?.cost_usd, more], [1_000, 500, 0.006, []]);
    }
    assert.equal((await tokensCounted("input")) - inBefore, 2_000, "a stored manifest is counted as custom");
    assert.equal((await tokensCounted("output")) - outBefore, 1_000);
  });

  test("STREAM-048 STREAM-049 is the sum of its calls; totalTokens is the size of the last one", async () => {
    const { json } = await server.post("/chat", turn("agent", "go", { thread_id: "two-steps", model: "two-steps" }));
    const rows = await rowsOf("two-steps");

    const { input, output, cacheRead, cacheWrite, totalTokens, cost } = json.usage;
    assert.deepEqual([input, output, cacheRead, cacheWrite, totalTokens], [1_200, 1_500, 2_800, 0, 4_000]);
    assert.deepEqual(
      rows.map(({ tokens_input, tokens_output, cache_read }) => [tokens_input, tokens_output, cache_read]),
      [
        [1_000, 500, 0],
        [200, 1_000, 2_800],
      ],
    );
    const near = (actual: number, wanted: number) => assert.ok(Math.abs(actual - wanted) < 1e-12, String(actual));
    near(cost.total, 0.006 + 0.0098);
    near(cost.cacheRead, 0.0014);
    near(
      cost.total,
      rows.reduce((sum, { cost_usd }) => sum + cost_usd, 0),
    );
  });

  test("STREAM-048 STREAM-049 USAGE-001 has a provider's cache counted, priced and summed like the rest", async () => {
    const { json } = await server.post("/chat", turn("agent", "go", { thread_id: "keeping", model: "keeping" }));
    const rows = await rowsOf("keeping");
    const { items } = (await server.get("/usage/threads")).json;
    await server.request("PUT", "/manifests/keeping", {
      body: { manifest: { metadata: { name: "keeping" }, spec: { model: { id: "keeping" } } } },
    });
    mock.answer("keeping", { text: "42.", usage: kept });
    const completion = { model: "keeping", messages: [{ role: "user", content: "go" }] };
    const openAi = await server.post("/v1/chat/completions", completion);
    mock.answer("keeping", inTurn({ ...call, usage: kept }, { text: "42.", usage: kept }));

    const { cost, ...tokens } = json.usage;
    assert.deepEqual(tokens, { input: 1_000, output: 1_000, cacheRead: 400, cacheWrite: 1_600, totalTokens: 2_000 });
    const near = (actual: number, wanted: number) => assert.ok(Math.abs(actual - wanted) < 1e-12, String(actual));
    near(cost.cacheWrite, 0.0064);
    near(cost.total, 2 * 0.0083);
    for (const { tokens_input, cache_read, cache_creation, cost_usd } of rows) {
      assert.deepEqual([tokens_input, cache_read, cache_creation], [500, 200, 800]);
      near(cost_usd, 0.0083);
    }
    assert.equal(rows.length, 2);
    const summed = items.find((item: { thread_id: string }) => item.thread_id === "default:keeping");
    assert.equal(summed.cache_creation, 1_600);
    near(summed.cost_usd, 2 * 0.0083);
    assert.equal(openAi.json.usage.prompt_tokens, 1_500);
  });

  for (const [id, manifest, limit] of [
    ["GOV-024", "capped", "max_input_tokens"],
    ["GOV-026", "cheap", "max_cost_usd"],
  ] as const) {
    test(`${id} cached tokens of a provider count against ${limit}`, async () => {
      const { json } = await server.post("/chat", turn(manifest, "go", { thread_id: manifest, model: "keeping" }));

      assert.equal(json.final.content, `run limit reached: ${limit}`);
      assert.equal((await rowsOf(manifest)).length, 1);
    });
  }

  test("USAGE-001 is kept in the answer and the rows of a turn that fails", async () => {
    const done = await streamed("failed-later", "scripted", inTurn({ ...call, usage: plain }, refusal));
    const chat = await server.post("/chat", turn("agent", "go", { thread_id: "failed-at-once", model: "scripted" }));

    assert.deepEqual([done.stop_reason, done.usage.cost.total], ["unknown", 0.006]);
    assert.deepEqual(
      (await rowsOf("failed-later")).map(({ cost_usd }) => cost_usd),
      [0.006],
    );
    assert.equal(chat.status, 502);
    assert.deepEqual(
      (await rowsOf("failed-at-once")).map(({ cost_usd }) => cost_usd),
      [0.006],
    );
  });

  test("USAGE-001 is kept of an aborted turn, with the interrupted reply estimated", async () => {
    mock.answer("scripted", inTurn({ ...call, usage: plain }, says("So", never)));
    const body = turn("agent", "go", { thread_id: "aborted", model: "scripted" });
    const stream = await server.stream("/chat/stream", body);
    await stream.until("text_delta");

    await server.post("/chat/abort", { thread_id: "aborted" });
    const done = await stream.until("done");

    assert.equal(done.json.data.usage.cost.total, 0.006);
    const [reported, stopped, ...more] = await rowsOf("aborted");
    assert.deepEqual([reported?.cost_usd, reported?.estimated, more], [0.006, undefined, []]);
    assert.deepEqual([stopped?.estimated, stopped?.tokens_output], [true, 1]);
    assert.ok((stopped?.tokens_input ?? 0) > 10);
  });

  test("USAGE-001 is recorded for a turn out of steps too", async () => {
    const done = await streamed("out-of-steps", "scripted", { ...call, usage: plain }, "brief");

    assert.deepEqual([done.stop_reason, done.usage.cost.total], ["max_turns", 0.006]);
    assert.equal((await rowsOf("out-of-steps")).length, 1);
  });

  test("STREAM-048 OPS-013 is a row by estimate and no answer field when the provider reports none, counted", async () => {
    const count = async () => {
      const { text } = await server.get("/metrics");
      const start = 'svc_model_unmetered_total{manifest_id="agent",model="mock-no-usage"}';
      return Number(
        text
          .split("\n")
          .find((line) => line.startsWith(start))
          ?.split(" ")
          .at(-1) ?? 0,
      );
    };
    const before = await count();

    const body = turn("agent", "go", { thread_id: "unmetered", model: "mock-no-usage" });
    const { status, json } = await server.post("/chat", body);

    assert.equal(status, 200);
    assert.ok(!("usage" in json));
    const [row, ...more] = await rowsOf("unmetered");
    const prompt = mock.requests.at(-1)?.body ?? {};
    const characters = JSON.stringify(prompt.messages).length + JSON.stringify(prompt.tools).length;
    // "Hello from the mock." arrives in five deltas, each counted as a token.
    assert.deepEqual([row?.tokens_input, row?.tokens_output, more], [Math.ceil(characters / 4), 5, []]);
    assert.equal(row?.cost_usd, ((row?.tokens_input ?? 0) * 2 + 5 * 8) / 1e6);
    assert.deepEqual([row?.estimated, JSON.parse(row?.meta_json ?? "{}").estimated], [true, true]);
    const { items } = (await server.get("/usage/threads")).json;
    const sums = items.find(({ thread_id }: { thread_id: string }) => thread_id.endsWith(":unmetered"));
    assert.deepEqual([sums.calls, sums.tokens_output], [1, 5]);
    assert.equal(await count(), before + 1);
  });

  test("USAGE-001 is estimated where counts are invalid, and never refunds money", async () => {
    const usage = { prompt_tokens: -5_000, completion_tokens: 1.5, total_tokens: "many" } as unknown as typeof plain;
    mock.answer("odd", { text: ["Odd", "."], usage });

    const { json } = await server.post("/chat", turn("agent", "go", { thread_id: "odd", model: "odd" }));

    assert.ok(!("usage" in json));
    const [row, ...more] = await rowsOf("odd");
    assert.deepEqual([row?.tokens_output, row?.estimated, more], [2, true, []]);
    assert.ok((row?.tokens_input ?? 0) > 0 && (row?.cost_usd ?? 0) > 0);
  });

  test("SPEC-020 has the manifest's own prices before the route's, for its own model alone", async () => {
    mock.answer("scripted", { text: "Ok.", usage: plain });
    const own = await server.post("/chat", turn("priced", "go", { thread_id: "own-price" }));
    const other = await server.post("/chat", turn("priced", "go", { thread_id: "other-price", model: "one" }));
    const free = await server.post("/chat", turn("priced", "go", { thread_id: "free", model: "free" }));

    assert.deepEqual(
      [own, other, free].map(({ json }) => json.usage.cost.total),
      [0.008, 0.006, 0],
    );
    assert.deepEqual(
      (await rowsOf("free")).map(({ model_id, cost_usd }) => [model_id, cost_usd]),
      [["free", 0]],
    );
  });

  test("IDEM-008 IDEM-012 is not charged again for a replayed answer", async () => {
    const body = turn("agent", "go", { thread_id: "again", model: "one" });
    const headers = { "idempotency-key": "again-1" };
    const asked = mock.requests.length;

    const first = await server.post("/chat", body, { headers });
    const second = await server.post("/chat", body, { headers });

    assert.equal(first.text, second.text);
    assert.equal(mock.requests.length, asked + 1);
    assert.equal((await rowsOf("again")).length, 1);
  });

  test("USAGE-001 survives the server's death in the row of an answered turn", async () => {
    await server.post("/chat", turn("agent", "go", { thread_id: "survivor", model: "two-steps" }));
    const before = await rowsOf("survivor");
    await server.kill();
    await server.restart();

    const after = await rowsOf("survivor");

    assert.equal(before.length, 2);
    assert.deepEqual(after, before);
  });
});
