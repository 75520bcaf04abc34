// Caps on tokens and money. The rest of a cap bounds each model call twice: as a parameter for the provider, and by
// ending a stream that exceeds it. Both are tested, with providers that respect the parameter and providers that ignore
// it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, chunk, inTurn, never, says, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import type { Behaviour, Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  caller: { scopes: ["*"] },
  other: { tenant_id: "globex", scopes: ["*"] },
});
const price = { input: 2, output: 8 };
const word = "word ";
/** A hundred tokens in separate events. */
const flood = chunk({ content: word }, null).repeat(100);
const reported = (output: number) => ({ prompt_tokens: 50, completion_tokens: output, total_tokens: 50 + output });

/** Writes 100,000 tokens, or fewer if the request sets a maximum. */
const honest: Behaviour = ({ body }) => {
  const bound = Number(body.max_tokens ?? body.max_completion_tokens ?? 100_000);
  const usage = reported(Math.min(bound, 100_000));
  return { text: word.repeat(usage.completion_tokens), finishReason: "length", usage };
};
/** Writes 100,000 tokens whatever the maximum, until the reader disconnects. */
const heedless: Reply = { steps: [{ endless: flood, gapMs: 1, bytesMax: flood.length * 1_000 }] };

interface Row {
  readonly tokens_output: number;
  readonly cost_usd: number;
  readonly estimated?: true;
}

describe("caps", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const of = (id: string, limits: object, more: object = {}) => ({
      tools: ["calculator"],
      model: { id, ...more },
      limits,
    });
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["known"],
      manifests: {
        tokens: of("known", { max_output_tokens: 5_000 }),
        "tokens-unknown": of("unknown", { max_output_tokens: 5_000 }),
        money: of("known", { max_cost_usd: 0.005 }),
        "money-unknown": of("unknown", { max_cost_usd: 0.005 }),
        fifty: of("known", { max_output_tokens: 50 }),
        small: of("small", {}),
        narrow: of("narrow", { max_output_tokens: 5_000 }),
        newer: of("newer", { max_output_tokens: 5_000 }),
        older: of("older", { max_output_tokens: 5_000 }),
        boundless: of("boundless", { max_output_tokens: 5_000 }),
        "asks-much": of("small", {}, { max_tokens: 50_000 }),
        fallible: of("failing", { max_output_tokens: 5_000 }, { fallbacks: ["known"] }),
        open: of("known", {}),
      },
      routes: {
        unknown: { provider: "openai", model: "known", price },
        small: { provider: "openai", model: "known", max_output_tokens: 4_096, price },
        narrow: { provider: "openai", model: "known", max_output_tokens: 32_768, context_window: 4_096, price },
        newer: {
          provider: "openai",
          model: "known",
          max_output_tokens: 32_768,
          parameters: ["max_completion_tokens"],
          price,
        },
        older: {
          provider: "groq",
          model: "known",
          max_output_tokens: 32_768,
          parameters: ["max_tokens", "temperature"],
          price,
        },
        boundless: {
          provider: "openai",
          model: "known",
          max_output_tokens: 32_768,
          parameters: ["temperature"],
          price,
        },
        failing: { provider: "openai", model: "failing", price },
      },
      providers: { groq: { api_key: "another-provider-key" } },
      env: keyed,
    }));
  });

  let threads = 0;
  async function run(manifest: string, behaviour: Behaviour, key = keys.caller) {
    const thread = `caps-${++threads}`;
    const asked = mock.requests.length;
    mock.answer("known", behaviour);
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: thread }), { key });
    const frames: Frame[] = await stream.rest();
    const done = frames.find(({ name }) => name === "done")?.json.data;
    const { items } = (await server.get(`/usage?thread_id=${thread}`, { key })).json;
    return { thread, frames, done, rows: items.reverse() as Row[], requests: mock.requests.slice(asked) };
  }

  /** The text of a reply before the line that names the reached limit. */
  const wordsBefore = (text: string, limit: string): number => {
    const end = `\n\nrun limit reached: ${limit}`;
    assert.ok(text.endsWith(end), text.slice(-80));
    return text.slice(0, -end.length).length / word.length;
  };

  test("GOV-025 max_output_tokens 5000 is sent to an obedient provider and bounds its usage", async () => {
    const { done, rows, requests } = await run("tokens", honest);

    assert.equal(requests[0]?.body.max_tokens, 5_000);
    assert.deepEqual([done.stop_reason, done.usage.output], ["max_tokens", 5_000]);
    assert.equal(done.final.content.length, 5_000 * word.length);
    assert.deepEqual([rows[0]?.tokens_output, rows[0]?.estimated, rows.length], [5_000, undefined, 1]);
  });

  for (const manifest of ["tokens", "tokens-unknown"]) {
    test(`GOV-025 USAGE-001 max_output_tokens 5000 ends the stream of a provider that ignores it (${manifest})`, async () => {
      const { thread, frames, done, rows, requests } = await run(manifest, heedless);

      const written = wordsBefore(done.final.content, "max_output_tokens");
      assert.ok(written > 3_900 && written <= 5_000, String(written));
      assert.equal(wordsOf(frames), done.final.content);
      assert.deepEqual([done.stop_reason, "usage" in done], ["unknown", false]);
      assert.deepEqual([rows[0]?.tokens_output, rows[0]?.estimated, rows.length], [5_000, true, 1]);
      assert.equal(await requests[0]?.ended, "gone", "nobody reads the rest");
      const { json } = await server.get(`/chat/sessions/${thread}`, { key: keys.caller });
      assert.deepEqual(
        [json.transcript.at(-1).content, json.transcript.at(-1).status],
        [done.final.content, "limited"],
      );
    });
  }

  test("GOV-025 no bound that the provider could refuse is sent to it", async () => {
    const unknown = await run("tokens-unknown", { text: "Ok." });
    const small = await run("small", { text: "Ok." });
    const narrow = await run("narrow", { text: "Ok." });
    const asked = await run("asks-much", { text: "Ok." });

    for (const { requests } of [unknown, small, narrow]) {
      assert.equal(requests.length, 1);
      assert.ok(!("max_tokens" in (requests[0]?.body ?? {})));
    }
    assert.equal(asked.requests[0]?.body.max_tokens, 4_096);
  });

  test("GOV-025 the bound has the parameter name of the route's model, at every provider", async () => {
    const newer = await run("newer", { text: "Ok." });
    const older = await run("older", { text: "Ok." });
    const boundless = await run("boundless", heedless);

    const bounds = ({ requests: [request] }: typeof newer) =>
      ["max_tokens", "max_completion_tokens", "temperature"].map((name) => request?.body[name]);
    assert.deepEqual(bounds(newer), [undefined, 5_000, undefined]);
    assert.deepEqual(bounds(older), [5_000, undefined, 0]);
    assert.equal(older.requests[0]?.headers.authorization, "Bearer another-provider-key");
    assert.deepEqual(bounds(boundless), [undefined, undefined, 0]);
    assert.equal(boundless.rows[0]?.tokens_output, 5_000);
  });

  test("GOV-026 max_cost_usd 0.005 bounds the cost at an obedient provider", async () => {
    const { done, rows, requests } = await run("money", honest);

    const told = Number(requests[0]?.body.max_tokens);
    assert.ok(told > 400 && told < 625, String(told));
    assert.deepEqual([done.stop_reason, done.usage.output], ["max_tokens", told]);
    assert.ok(done.usage.cost.total <= 0.005 && done.usage.cost.total > 0.004, String(done.usage.cost.total));
    assert.equal(rows[0]?.cost_usd, done.usage.cost.total);
  });

  for (const manifest of ["money", "money-unknown"]) {
    test(`GOV-026 USAGE-001 max_cost_usd 0.005 ends the stream of a provider that ignores it (${manifest})`, async () => {
      const { done, rows } = await run(manifest, heedless);

      const written = wordsBefore(done.final.content, "max_cost_usd");
      assert.ok(written > 300 && written <= 625, String(written));
      const [row] = rows;
      assert.ok((row?.cost_usd ?? 1) <= 0.005 && (row?.cost_usd ?? 0) > 0.004, String(row?.cost_usd));
      assert.deepEqual([done.stop_reason, row?.estimated, "usage" in done], ["unknown", true, false]);
    });
  }

  test("GOV-025 an obedient provider that writes long tokens is not cut early", async () => {
    const long = "extraordinarily ".slice(0, 7);
    const { done, rows } = await run("fifty", ({ body }) => {
      const bound = Number(body.max_tokens);
      return { text: Array.from({ length: bound }, () => long), finishReason: "length", usage: reported(bound) };
    });

    assert.deepEqual([done.final.content, done.stop_reason], [long.repeat(50), "max_tokens"]);
    assert.deepEqual([rows[0]?.tokens_output, rows[0]?.estimated], [50, undefined]);
  });

  test("GOV-025 one event beyond the limit is cut at the limit, streamed or not", async () => {
    const text = "x".repeat(400_000);
    const oneEvent = await run("tokens-unknown", { text });
    const body = { choices: [{ message: { content: text }, finish_reason: "stop" }], usage: reported(100_000) };
    const whole = await run("tokens-unknown", {
      status: 200,
      headers: { "content-type": "application/json" },
      framing: "length",
      steps: [{ send: JSON.stringify(body) }],
    });

    for (const { done, rows } of [oneEvent, whole]) {
      assert.equal(wordsBefore(done.final.content, "max_output_tokens"), 20_000 / word.length);
      assert.deepEqual([rows[0]?.tokens_output, rows[0]?.estimated], [5_000, true]);
    }
  });

  test("GOV-025 reasoning and tool arguments count too, and a cut call is dropped", async () => {
    const thought = await run("tokens", {
      reasoning: Array.from({ length: 6_000 }, () => "hm "),
      text: "Never said.",
      wire: { writes: "one" },
    });
    const asked = await run("tokens", {
      toolCalls: [{ id: "c", name: "calculator", arguments: Array.from({ length: 6_000 }, () => " ") }],
      wire: { writes: "one" },
    });

    for (const { done, frames, rows, requests } of [thought, asked]) {
      assert.equal(done.final.content, "run limit reached: max_output_tokens");
      assert.equal(requests.length, 1, "what was ended on purpose is not tried again");
      assert.deepEqual([rows[0]?.tokens_output, rows.length], [5_000, 1]);
      assert.ok(frames.every(({ name }) => name !== "tool_start"));
    }
  });

  test("GOV-025 tool calls without text count per piece, so that they are bounded", async () => {
    const empty = chunk({ tool_calls: [{ index: 0, function: { arguments: "" } }] }, null).repeat(100);
    const { done, rows, requests } = await run("tokens-unknown", {
      steps: [{ endless: empty, gapMs: 1, bytesMax: empty.length * 1_000 }],
    });

    assert.equal(done.final.content, "run limit reached: max_output_tokens");
    assert.deepEqual([rows[0]?.tokens_output, await requests[0]?.ended], [5_000, "gone"]);
  });

  test("GOV-025 the cut is the same on every surface, with a thread and without", async () => {
    mock.answer("known", heedless);
    const key = { key: keys.caller };

    const chat = await server.post("/chat", turn("tokens", "go"), key);
    const openAi = await server.post(
      "/v1/chat/completions",
      { model: "tokens", messages: [{ role: "user", content: "go" }] },
      key,
    );

    const { content } = chat.json.final;
    assert.ok(wordsBefore(content, "max_output_tokens") <= 5_000);
    assert.deepEqual([chat.status, chat.json.stop_reason, "usage" in chat.json], [200, "unknown", false]);
    assert.equal(openAi.json.choices[0].message.content, content);
    assert.equal(openAi.json.choices[0].finish_reason, "stop");
  });

  test("GOV-025 USAGE-001 a call without reported usage counts by estimate in the limits of its run", async () => {
    const first = { text: "x".repeat(80), ...calls(["calculator", { expression: "1+1" }]), usage: null };
    const { done, rows, requests } = await run("fifty", inTurn(first, { text: "Two.", usage: reported(2) }));

    // An estimate: 80 characters of text and those of the call, at four characters a token.
    const used = rows[0]?.tokens_output ?? 0;
    assert.ok(used >= 20 && used < 40, String(used));
    assert.deepEqual(
      requests.map(({ body }) => body.max_tokens),
      [50, 50 - used],
    );
    assert.deepEqual([rows[0]?.estimated, rows[1]?.estimated, rows.length], [true, undefined, 2]);
    assert.equal(done.usage.output, 2, "the answer has what was reported");
  });

  for (const usage of [
    {},
    { prompt_tokens: 50, completion_tokens: "30" },
    { prompt_tokens: 0.5, completion_tokens: -1 },
  ])
    test(`GOV-025 USAGE-001 a cap holds over calls that report ${JSON.stringify(usage)}`, async () => {
      let written = 0;
      const { done, rows, requests } = await run("fifty", ({ body }) => {
        const words = Math.min(30, Number(body.max_tokens));
        written += words;
        return {
          ...calls(["calculator", { expression: "1+1" }]),
          text: Array.from({ length: words }, () => word),
          usage: usage as ReturnType<typeof reported>,
        };
      });

      assert.match(done.final.content, /run limit reached: max_output_tokens$/);
      assert.ok(written <= 50 && requests.length === 2, `${written} in ${requests.length}`);
      assert.deepEqual(new Set(rows.map(({ estimated }) => estimated)), new Set([true]));
    });

  test("USAGE-001 a broken stream is estimated from its text, and a refused call is not counted", async () => {
    const broken = await run("open", { steps: [{ send: chunk({ content: "Hello, " }, null) }, { cut: "end" }] });
    const refused = await run("open", { status: 400, steps: [{ send: "{}" }] });

    assert.deepEqual([broken.done.final.content, broken.done.stop_reason], ["Hello, ", "unknown"]);
    assert.deepEqual([broken.rows[0]?.tokens_output, broken.rows[0]?.estimated, broken.rows.length], [2, true, 1]);
    assert.deepEqual(refused.rows, []);
  });

  test("GOV-025 USAGE-001 reasoning of a failed attempt counts against the next, also at the fallback", async () => {
    const thinks = chunk({ reasoning_content: "x".repeat(4_000) }, null);
    mock.answer("failing", { steps: [{ send: thinks }, { cut: "reset" }] });

    const { done, rows, requests } = await run("fallible", { text: "Ok.", usage: reported(1) });

    assert.equal(done.final.content, "Ok.");
    const tries = requests.filter(({ model }) => model === "failing").length;
    assert.deepEqual(
      rows.map(({ tokens_output, estimated }) => [tokens_output, estimated]),
      [...Array.from({ length: tries }, () => [1_000, true]), [1, undefined]],
    );
    assert.equal(requests.at(-1)?.body.max_tokens, 5_000 - 1_000 * tries);
  });

  test("GOV-025 parallel runs, of one tenant or two, each have their own limit", async () => {
    mock.answer("known", heedless);
    const ask = (key: string, thread_id: string) => server.post("/chat", turn("tokens", "go", { thread_id }), { key });

    const answers = await Promise.all([
      ask(keys.caller, "side-1"),
      ask(keys.caller, "side-2"),
      ask(keys.other, "side-1"),
    ]);
    const mine = (await server.get("/usage?thread_id=side-1", { key: keys.caller })).json.items;
    const theirs = (await server.get("/usage?limit=200", { key: keys.other })).json.items;

    const [first, ...others] = answers.map(({ json }) => json.final.content);
    assert.ok(wordsBefore(first, "max_output_tokens") > 3_900);
    for (const content of others) assert.equal(content, first);
    assert.deepEqual([mine.length, theirs.length], [1, 1]);
    assert.deepEqual([theirs[0].tenant_id, theirs[0].tokens_output, theirs[0].estimated], ["globex", 5_000, true]);
  });

  test("USAGE-001 estimated usage is kept in rows and sums after the server's death", async () => {
    const { thread, rows } = await run("tokens", heedless);
    await server.kill();
    await server.restart();

    const key = { key: keys.caller };
    const after = (await server.get(`/usage?thread_id=${thread}`, key)).json.items;
    const { items } = (await server.get("/usage/threads?limit=200", key)).json;

    assert.deepEqual(after, rows);
    const sums = items.find(({ thread_id }: { thread_id: string }) => thread_id === `acme:${thread}`);
    assert.deepEqual([sums.calls, sums.tokens_output], [1, 5_000]);
    const next = await server.post("/chat/continue", { thread_id: thread }, key);
    assert.equal(next.status, 200, "a reply that a limit has cut can be gone on with");
  });

  test("GOV-022 USAGE-001 a disconnect or abort before the first word leaves no usage row", async () => {
    mock.answer("known", says(never));
    const key = { key: keys.caller };
    const stream = await server.stream("/chat/stream", turn("open", "go", { thread_id: "silent" }), key);
    await mock.next();
    await server.post("/chat/abort", { thread_id: "silent" }, key);
    await stream.rest();

    assert.deepEqual((await server.get("/usage?thread_id=silent", key)).json.items, []);
  });
});
