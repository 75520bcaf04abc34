// Thinking, prompt caching and native Anthropic models in a turn: over HTTP, in the log, after a restart and with a
// fallback.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { agent, parseProblems } from "../manifests/support.ts";
import { framesUntil, gate, isReply, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import type { Answer } from "../support/http-client.ts";
import { markedBlocks } from "../support/mock-anthropic/rules.ts";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../support/mock-anthropic.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const price = { input: 3, output: 15, cache_read: 0.3, cache_write: 3.75 };
const models = [
  "claude-a",
  "claude-tools",
  "claude-log",
  "claude-lost",
  "claude-flaky",
  "claude-late",
  "claude-refuses",
  "claude-cached",
  "claude-level",
  "claude-held",
] as const;
const call = (id: string, expression: string) => ({ call: { id, name: "calculator", input: { expression } } });

describe("thinking", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "usage:read", "audit:read"] },
    two: { tenant_id: "two", scopes: ["chat:write", "chat:read"] },
  });
  let server: ProcessServer;
  let mock: MockModel;
  let claude: MockAnthropic;
  before(async () => {
    claude = await startMockAnthropic();
    atEnd.after(() => claude.close());
    const thinks = { thinking_level: "high" };
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["plain", "effort", "wordless"],
      routes: Object.fromEntries(models.map((model) => [model, { provider: "anthropic", model, price }])),
      providers: { anthropic: { base_url: claude.url, api_key: mockAnthropicKey } },
      manifests: {
        agent: { tools: ["calculator"], model: { id: "claude-a" } },
        thinker: { tools: ["calculator"], model: { id: "claude-a", ...thinks } },
        budgeted: { model: { id: "claude-a", thinking_budget: 9000 } },
        levelled: { model: { id: "claude-a", thinking_budget: 9000, thinking_level: "low" } },
        refuser: { model: { id: "claude-refuses" } },
        "plain-effort": { model: { id: "effort", thinking_level: "max" } },
        cached: {
          tools: ["calculator"],
          model: { id: "claude-cached", cache: true },
          system_prompt: { inline: "Be brief." },
        },
        fallback: { tools: ["calculator"], model: { id: "claude-lost", ...thinks, fallbacks: ["plain"] } },
      },
      env,
    }));
  });

  const as = (key: keyof typeof keys = "one") => ({ key: keys[key] });
  const chat = (manifest: string, text: string, fields: object = {}) =>
    server.post("/chat", turn(manifest, text, fields), as());
  const streamed = async (manifest: string, text: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, text, fields), as())).rest();
  const snapshot = async (thread: string, key: keyof typeof keys = "one") =>
    (await server.get(`/chat/sessions/${thread}`, as(key))).json;
  const setLevel = (thread_id: string, thinking_level: unknown, key: keyof typeof keys = "one") =>
    server.post("/chat/thinking", { thread_id, thinking_level }, as(key));
  const wordsIn = ({ json }: Answer): string => json.final.content;
  const lastBody = (model: string) => claude.requests.findLast((request) => request.model === model)?.body;

  test("a thought is streamed as thinking_delta, logged, and shown without its signature", async () => {
    claude.answer("claude-a", {
      parts: [{ thinking: ["Six times ", "seven."] }, { redacted: true }, { text: ["It is ", "42."] }],
    });

    const frames = await streamed("thinker", "go", { thread_id: "shown" });

    const thought = frames
      .filter(({ name }) => name === "thinking_delta")
      .map(({ json }) => json.data.delta)
      .join("");
    assert.deepEqual([thought, wordsOf(frames)], ["Six times seven.", "It is 42."]);
    const names = frames.map(({ name }) => name);
    assert.ok(names.indexOf("thinking_delta") < names.indexOf("text_delta"));
    const { transcript } = await snapshot("shown");
    assert.deepEqual(transcript[1].metadata.thinking, [{ type: "thinking", thinking: "Six times seven." }]);
  });

  test("STREAM-003 signatures and redacted thoughts reach no client, on any route", async () => {
    claude.answer(
      "claude-a",
      { parts: [{ thinking: "Hm." }, { redacted: true }, call("a", "6*7")] },
      { parts: [{ thinking: "So." }, { text: "42." }] },
    );

    const frames = await streamed("thinker", "go", { thread_id: "proofs" });
    const answers = await Promise.all([
      server.get("/chat/sessions/proofs", as()),
      server.get("/chat/history/proofs", as()),
      chat("thinker", "again", { thread_id: "proofs" }),
      server.post("/v1/chat/completions", { model: "thinker", messages: [{ role: "user", content: "go" }] }, as()),
      server.get("/audit", as()),
    ]);
    const tail = await server.listen("/chat/stream/proofs?last_event_id=0", as());
    await framesUntil(tail, isReply);
    tail.close();

    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200, 200],
    );
    for (const text of [JSON.stringify(frames), ...answers.map((answer) => answer.text), tail.text])
      assert.ok(!/SIGNED-|signature|redacted_thinking|anthropic\/claude/.test(text), text);
    assert.ok(!server.output.includes("SIGNED-"));
  });

  test("thoughts are sent back with their calls' results, also when read from the log", async () => {
    const steps = [
      { parts: [{ thinking: "First." }, { text: "Wait." }, call("a", "6*7"), call("b", "1+1")] },
      { parts: [{ thinking: "Then." }, { redacted: true as const }, call("c", "2+2")] },
      { parts: [{ thinking: "Done." }, { text: "42, 2 and 4." }] },
      { parts: [{ text: "Again." }] },
    ];
    claude.answer("claude-tools", ...steps);

    const first = await chat("thinker", "go", { thread_id: "steps", model: "claude-tools" });
    const inTurn = lastBody("claude-tools")?.messages.map(({ content }) => content[0]?.type);
    await server.restart();
    const second = await chat("thinker", "again", { thread_id: "steps", model: "claude-tools" });

    assert.deepEqual([wordsIn(first), wordsIn(second)], ["42, 2 and 4.", "Again."]);
    assert.deepEqual(inTurn, ["text", "thinking", "tool_result", "thinking", "tool_result"]);
    assert.deepEqual(claude.refused, []);
    const shown = lastBody("claude-tools")?.messages.map(({ content }) => content.map(({ type }) => type));
    assert.deepEqual(shown, [
      ["text"],
      ["thinking", "text", "tool_use", "tool_use"],
      ["tool_result", "tool_result"],
      ["thinking", "redacted_thinking", "tool_use"],
      ["tool_result"],
      ["thinking", "text"],
      ["text"],
    ]);
  });

  test("a fallback to another provider gets no thoughts, and their model gets them back", async () => {
    const overloaded = { status: 529, type: "overloaded_error", message: "Overloaded" };
    claude.answer(
      "claude-lost",
      { parts: [{ thinking: "Mine." }, call("a", "6*7")] },
      overloaded,
      overloaded,
      overloaded,
      { parts: [{ text: "Back." }] },
    );
    mock.answer("plain", { text: "42, says the other." });

    const frames = await streamed("fallback", "go", { thread_id: "fell" });
    const later = await chat("fallback", "and?", { thread_id: "fell" });

    assert.equal(wordsOf(frames), "42, says the other.");
    const other = mock.requests.findLast(({ model }) => model === "plain");
    assert.ok(!/SIGNED|Mine\.|thinking/.test(other?.text ?? "SIGNED"), other?.text);
    assert.equal(wordsIn(later), "Back.");
    const types = lastBody("claude-lost")?.messages.map(({ content }) => content.map(({ type }) => type));
    assert.deepEqual(types, [["text"], ["thinking", "tool_use"], ["tool_result"], ["text"], ["text"]]);
    assert.deepEqual(claude.refused, []);
  });

  test("overload after the 200 is retried before the first word, and ends the turn after", async () => {
    const breaks = { type: "overloaded_error", message: "Overloaded" };
    claude.answer("claude-flaky", { parts: [], breaks }, { parts: [{ text: "Here." }] });
    claude.answer("claude-late", { parts: [{ text: "So far" }], breaks });

    const again = await chat("agent", "go", { model: "claude-flaky" });
    const frames = await streamed("agent", "go", { thread_id: "late", model: "claude-late" });

    assert.equal(wordsIn(again), "Here.");
    const done = frames.find(({ name }) => name === "done")?.json.data;
    assert.deepEqual([done.final.content, done.stop_reason], ["So far", "unknown"]);
    assert.match(frames.find(({ name }) => name === "on_error")?.json.data.message, /Overloaded/);
    assert.equal(claude.requests.filter(({ model }) => model === "claude-late").length, 1);
  });

  test("a refusal of the model is the turn's stop reason on every surface", async () => {
    claude.answer("claude-refuses", { parts: [{ text: "I cannot" }], stop: "refusal" });

    const native = await chat("agent", "go", { model: "claude-refuses" });
    const openai = await server.post(
      "/v1/chat/completions",
      { model: "refuser", messages: [{ role: "user", content: "go" }] },
      as(),
    );
    const { text } = await server.get("/metrics", as());

    assert.deepEqual([native.status, wordsIn(native), native.json.stop_reason], [200, "I cannot", "refusal"]);
    assert.deepEqual([openai.status, openai.json.choices[0].finish_reason], [200, "content_filter"]);
    assert.match(text, /svc_run_stop_reason_total\{manifest_id="agent",reason="refusal"\} 1/);
  });

  test("SPEC-013 spec.model.cache marks the prompt, and usage has reads and writes of the cache", async () => {
    const usage = {
      input_tokens: 100,
      cache_creation_input_tokens: 2000,
      cache_read_input_tokens: 40_000,
      output_tokens: 50,
    };
    claude.answer("claude-cached", { parts: [call("a", "6*7")], usage }, { parts: [{ text: "42." }], usage });

    const { json } = await chat("cached", "go", { thread_id: "cached" });
    await chat("agent", "go", { model: "claude-level" });

    const marked = markedBlocks(lastBody("claude-cached") ?? {});
    assert.deepEqual(
      marked.map(({ name, type }) => name ?? type),
      ["calculator", "text", "text", "tool_result"],
    );
    assert.deepEqual(markedBlocks(lastBody("claude-level") ?? {}), []);
    const { cost, totalTokens, ...tokens } = json.usage;
    assert.deepEqual(tokens, { input: 200, output: 100, cacheRead: 80_000, cacheWrite: 4000 });
    assert.equal(totalTokens, 42_150);
    const expected = { input: 0.0006, output: 0.0015, cacheRead: 0.024, cacheWrite: 0.015 };
    for (const [part, usd] of Object.entries(expected))
      assert.ok(Math.abs(cost[part] - usd) < 1e-9, `${part} ${cost[part]}`);
    const { items } = (await server.get("/usage?thread_id=cached", as())).json;
    assert.deepEqual(
      items.map((row: Record<string, unknown>) => [row.tokens_input, row.cache_read, row.cache_creation]),
      [
        [100, 40_000, 2000],
        [100, 40_000, 2000],
      ],
    );
  });

  test("SPEC-014 spec.model.thinking_budget is 128 to 64000, as a budget or the effort it reaches", async () => {
    claude.answer("claude-a", {});
    const problems = (thinking_budget: number) => parseProblems(agent({ model: { thinking_budget } }));
    await chat("budgeted", "go");
    const effort = lastBody("claude-a");

    assert.deepEqual([problems(128), problems(64_000)], [[], []]);
    for (const wrong of [127, 64_001, 1000.5]) assert.equal(problems(wrong).length, 1, String(wrong));
    assert.deepEqual(effort?.output_config, { effort: "xhigh" });
  });

  test("SPEC-015 spec.model.thinking_level has priority over the budget, at every provider", async () => {
    claude.answer("claude-a", {});
    mock.answer("effort", { text: "Yes." });
    await chat("levelled", "go");
    await chat("plain-effort", "go");
    await chat("agent", "go");

    const [levelled, plain] = claude.requests.slice(-2).map(({ body }) => body);
    assert.deepEqual(
      [levelled?.thinking, levelled?.output_config],
      [{ type: "adaptive", display: "summarized" }, { effort: "low" }],
    );
    assert.deepEqual([plain?.thinking, plain?.output_config], [undefined, undefined]);
    assert.equal(mock.requests.at(-1)?.body.reasoning_effort, "high");
    assert.equal(parseProblems(agent({ model: { thinking_level: "huge" } })).length, 1);
  });

  test("a model that refuses effort is called without it, and not asked again", async () => {
    const refusal = (message: string) => ({
      status: 400,
      headers: { "content-type": "application/json" },
      steps: [{ send: JSON.stringify({ error: { message } }) }],
    });
    mock.answer("wordless", ({ body }) =>
      body.reasoning_effort === undefined
        ? { text: "Yes." }
        : refusal("Unrecognized request argument supplied: reasoning_effort"),
    );
    await setLevel("wordless", "high");

    const first = await chat("plain-effort", "go", { thread_id: "wordless", model: "wordless" });
    const second = await chat("plain-effort", "go", { thread_id: "wordless", model: "wordless" });

    assert.deepEqual([wordsIn(first), wordsIn(second)], ["Yes.", "Yes."]);
    const efforts = mock.requests.filter(({ model }) => model === "wordless").map(({ body }) => body.reasoning_effort);
    assert.deepEqual(efforts, ["high", undefined, undefined]);
  });

  test("SESS-013 POST /chat/thinking sets the thread's level, for model, log and after a restart", async () => {
    claude.answer("claude-level", {});
    const effort = async (manifest = "thinker"): Promise<unknown> => {
      await chat(manifest, "go", { thread_id: "level", model: "claude-level" });
      return (lastBody("claude-level")?.output_config as { effort: string } | undefined)?.effort;
    };
    assert.equal(await effort(), "high");

    const set = await setLevel("level", "low");
    assert.deepEqual([set.status, set.json], [200, { ok: true, thread_id: "one:level", thinking_level: "low" }]);
    assert.equal(await effort(), "low");
    await server.restart();
    assert.equal(await effort(), "low");
    const { thinkingLevel, transcript } = await snapshot("level");
    const marks = transcript.filter(({ kind }: { kind: string }) => kind === "thinking_level_change");
    assert.equal(thinkingLevel, "low");
    assert.deepEqual(
      marks.map(({ role, metadata }: { role: unknown; metadata: unknown }) => [role, metadata]),
      [[null, { type: "thinking_level_change", thinking_level: "low" }]],
    );
    await setLevel("level", "off");
    await chat("thinker", "go", { thread_id: "level", model: "claude-level" });
    assert.deepEqual(lastBody("claude-level")?.thinking, { type: "disabled" });
    await setLevel("level", null);
    assert.equal(await effort(), "high");
    assert.equal((await snapshot("level")).thinkingLevel, "off");
  });

  test("SESS-013 setting a level creates a private thread that is listed after its first turn", async () => {
    claude.answer("claude-level", {});
    const listed = async () =>
      (await server.get("/chat/sessions", as())).json.sessions.filter(({ id }: { id: string }) => id === "one:new");

    await setLevel("new", "max");
    const before = [
      await listed(),
      (await snapshot("new")).thinkingLevel,
      (await snapshot("new", "two")).thinkingLevel,
    ];
    await setLevel("new", "xhigh", "two");
    await chat("agent", "First words.", { thread_id: "new", model: "claude-level" });

    assert.deepEqual(before, [[], "max", "off"]);
    assert.deepEqual(lastBody("claude-level")?.output_config, { effort: "max" });
    const [session] = await listed();
    assert.deepEqual([session.preview, session.manifest], ["First words.", "agent"]);
    assert.deepEqual(
      [(await snapshot("new")).thinkingLevel, (await snapshot("new", "two")).thinkingLevel],
      ["max", "xhigh"],
    );
  });

  test("SESS-013 a level set during a run is kept at once and applies from the next run on", async () => {
    const more = gate();
    claude.answer("claude-held", { parts: [{ text: "So far" }], until: more.opened }, {});
    const stream = await server.stream(
      "/chat/stream",
      turn("agent", "go", { thread_id: "held", model: "claude-held" }),
      as(),
    );
    await stream.until("text_delta");

    const set = await setLevel("held", "medium");
    const during = (await snapshot("held")).thinkingLevel;
    more.open();
    await stream.rest();
    await chat("agent", "go", { thread_id: "held", model: "claude-held" });

    assert.deepEqual([set.status, during], [200, "medium"]);
    const efforts = claude.requests
      .filter(({ model }) => model === "claude-held")
      .map(({ body }) => body.output_config);
    assert.deepEqual(efforts, [undefined, { effort: "medium" }]);
  });

  test("SESS-013 bad levels and bodies are refused by name", async () => {
    for (const level of ["huge", "", 5, undefined]) {
      const { status, text } = await setLevel("bad", level);
      assert.deepEqual([status, text.includes("thinking_level")], [422, true], `${level}: ${text}`);
    }
    for (const id of ["a:b", "search", "50%"]) {
      const { status, json } = await setLevel(id, "low");
      assert.deepEqual([status, json.error], [400, "invalid_thread_id"], id);
    }
    assert.equal((await server.post("/chat/thinking", { thread_id: "x", thinking_level: "low" })).status, 401);
  });

  test("/v1/models lists the levels that are known to make a difference", async () => {
    const { data } = (await server.get("/v1/models", as())).json;
    const levels = Object.fromEntries(
      data.map(({ id, svc }: { id: string; svc: Record<string, unknown> }) => [id, svc.supportedThinkingLevels]),
    );

    assert.deepEqual(levels.agent, ["off", "minimal", "low", "medium", "high", "xhigh", "max"]);
    assert.deepEqual(levels["plain-effort"], []);
  });
});
