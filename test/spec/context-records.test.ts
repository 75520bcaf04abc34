// Context records (decision 86: each model call records the inputs that its log lacks). With the log, a record rebuilds
// the sent request byte for byte, including parts that no log holds.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { callsOf, callsOfAgent, rebuilt } from "../support/model-calls.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = [
  "nudged",
  "shaped",
  "semantic",
  "chatty",
  "planner",
  "reflecting",
  "instructed",
  "equipped",
  "failing",
  "other",
  "stopped",
  "added",
  "long",
  "alone",
  "shown",
] as const;
type Model = (typeof models)[number];
const sum = (n: number) => ["calculator", { expression: `1+${n}` }] as const;
const shape = { type: "object", properties: { n: { type: "integer" } }, required: ["n"], additionalProperties: false };
const overflow = jsonScript(400, {
  error: { message: "Too long.", type: "invalid_request_error", param: "messages", code: "context_length_exceeded" },
});
/** Gives one behaviour to each request in order, and the last one to all later requests. */
const inOrder =
  (...replies: readonly Behaviour[]): Behaviour =>
  (request) => {
    const reply = replies[Math.min(request.earlier, replies.length - 1)] as Behaviour;
    return typeof reply === "function" ? reply(request) : reply;
  };
const json = (value: unknown) => ({ text: [JSON.stringify(value)] });

describe("context records of model calls", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat", "chat:write", "chat:read", "runs:read", "manifests:read"] },
    digests: { tenant_id: "one", scopes: ["chat:read", "runs:read"] },
    two: { tenant_id: "two", scopes: ["chat:read", "runs:read", "manifests:read"] },
    nobody: { tenant_id: "one", scopes: ["chat:read", "manifests:read"] },
  });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const of = (model: Model, more: object = {}) => ({ model: { id: model }, tools: ["calculator"], ...more });
    ({ server, mock } = await startChat(atEnd, {
      models,
      env,
      manifests: {
        nudged: of("nudged", { recursion_limit: 1 }),
        shaped: of("shaped", { output_schema: shape }),
        semantic: of("semantic", { session: { strategy: "semantic:2" } }),
        "chatty-a": of("chatty"),
        "chatty-b": of("chatty", { system_prompt: { inline: "You are b." } }),
        chatty: of("chatty", { pattern: "groupchat", sub_agents: ["chatty-a", "chatty-b"], max_turns: 1 }),
        planner: of("planner", { pattern: "plan_execute" }),
        reflecting: of("reflecting", { pattern: "reflect", reflect: { threshold: 0.9, max_iterations: 2 } }),
        instructed: of("instructed"),
        equipped: of("equipped"),
        failing: { model: { id: "failing", fallbacks: ["other"] }, tools: ["calculator"] },
        stopped: of("stopped"),
        added: of("added"),
        long: of("long"),
        alone: of("alone"),
        shown: of("shown", { system_prompt: { inline: "A prompt of the operator's." } }),
      },
    }));
  });

  const as = { key: keys.one };
  const say = async (model: Model, text: string, fields: object = {}) => {
    const answer = await server.post("/chat", turn(model, text, { thread_id: model, ...fields }), as);
    assert.equal(answer.status, 200, answer.text);
    return answer;
  };
  const recordsOf = (model: Model) => callsOf(server.dataDir, model, "one");

  /** Compares every request to the models of a conversation with its record. Parallel sub-agents come in any order. */
  async function checkAll(thread: Model, of: readonly string[] = [thread], found = recordsOf(thread)) {
    const sent = mock.requests.filter(({ model }) => of.includes(model)).map(({ body }) => textOf(body));
    const records = await found;
    const made: string[] = [];
    for (const record of records) {
      const { messages, tools, problems } = await rebuilt(server.dataDir, record, "one");
      assert.deepEqual(problems, [], JSON.stringify(record.facts));
      // A retried call is one record with several tries.
      for (const _ of record.facts.tries) made.push(`${messages} ${tools}`);
    }
    assert.deepEqual(made.toSorted(), sent.toSorted());
    return records.map(({ facts }) => facts);
  }

  function textOf({ messages, tools }: Readonly<Record<string, unknown>>): string {
    return `${JSON.stringify(messages)} ${tools === undefined ? null : JSON.stringify(tools)}`;
  }

  test("a continuation's instruction, which is not logged, is recorded", async () => {
    mock.answer("nudged", inOrder({ text: "One moment.", ...calls(sum(1)) }, { text: "Done." }));
    await say("nudged", "Go.");

    const { status } = await server.post("/chat/continue", { thread_id: "nudged", manifest: "nudged" }, as);

    assert.equal(status, 200);
    const [first, second] = await checkAll("nudged");
    assert.equal(first?.digests.nudge, undefined);
    assert.match(String(second?.digests.nudge), /^[0-9a-f]{64}$/);
    assert.ok(JSON.stringify(mock.requests.findLast(({ model }) => model === "nudged")?.body).includes("[continue]"));
  });

  test("a rejected answer is quoted in the record of the repeated request", async () => {
    mock.answer("shaped", inOrder({ text: "seven" }, json({ n: 7 })));
    await say("shaped", "How many?");

    const [first, second] = await checkAll("shaped");

    assert.deepEqual([first?.digests.nudge === undefined, second?.digests.nudge === undefined], [true, false]);
    assert.equal(first?.digests.answer, second?.digests.answer);
    assert.match(String(first?.digests.answer), /^[0-9a-f]{64}$/);
  });

  test("selected messages are named one by one", async () => {
    mock.answer("semantic", { text: "Noted." });
    for (const words of ["The harbour is in Bergen.", "Tea is brown.", "Cats sleep.", "Dogs bark.", "Rain is wet."])
      await say("semantic", words);
    await say("semantic", "Where is the harbour?");

    const last = (await checkAll("semantic")).at(-1);

    assert.ok((last?.shown ?? []).filter((item) => Array.isArray(item)).length > 1, JSON.stringify(last?.shown));
  });

  test("sub-agents: unlogged instructions are recorded, and replies refer to events", async () => {
    mock.answer("chatty", (request) =>
      JSON.stringify(request.body.messages).includes("You are chatty-a") && request.earlier === 0
        ? calls(sum(1))
        : { text: `Said ${request.earlier}.` },
    );
    await say("chatty", "Discuss.");

    const facts = await checkAll("chatty");

    assert.deepEqual([...new Set(facts.map(({ agent }) => agent))].toSorted(), ["chatty", "chatty-a", "chatty-b"]);
  });

  test("questions that a pattern asks are recorded, with answers that have no event", async () => {
    mock.answer(
      "planner",
      inOrder(
        json({ subtasks: [{ title: "Add", task: "Add one." }] }),
        calls(sum(1)),
        { text: "Two." },
        { text: "2." },
      ),
    );
    await say("planner", "Add.");
    mock.answer(
      "reflecting",
      inOrder(
        { text: "Draft." },
        json({ score: 0.1, feedback: "More." }),
        { text: "Better." },
        json({ score: 1, feedback: "" }),
      ),
    );
    await say("reflecting", "Write.");

    const planned = await checkAll("planner");
    const reflected = await checkAll("reflecting");

    assert.deepEqual(
      planned.map(({ purpose }) => purpose),
      ["question", "step", "step", "step"],
    );
    assert.deepEqual(
      reflected.map(({ purpose }) => purpose),
      ["step", "question", "step", "question"],
    );
    const [question] = await recordsOf("planner");
    assert.ok(question !== undefined);
    assert.match(String((await rebuilt(server.dataDir, question, "one")).reply), /"subtasks"/);
  });

  test("instructions and tools of a request are recorded", async () => {
    mock.answer("instructed", { text: "Yes." });
    mock.answer("equipped", { text: "Yes." });
    const response = await server.post(
      "/v1/responses",
      { model: "instructed", input: "Hi.", instructions: "Be brief." },
      as,
    );
    const tool = { type: "function", function: { name: "mine", description: "Mine.", parameters: { type: "object" } } };
    const chat = await server.post(
      "/v1/chat/completions",
      {
        model: "equipped",
        user: "equipped",
        messages: [
          { role: "system", content: "Be kind." },
          { role: "user", content: "Hi." },
        ],
        tools: [tool],
      },
      as,
    );

    assert.deepEqual([response.status, chat.status], [200, 200], response.text + chat.text);
    await checkAll("equipped");
    const [instructed] = await checkAll(
      "instructed",
      ["instructed"],
      callsOfAgent(server.dataDir, "instructed", "one"),
    );
    assert.match(String(instructed?.digests.instructions), /^[0-9a-f]{64}$/);
    const sent = mock.requests.findLast(({ model }) => model === "instructed")?.body;
    assert.ok(JSON.stringify(sent).includes("Be brief."));
  });

  test("failed, repeated and fallback calls are recorded with each one's figures", async () => {
    mock.answer("failing", failure(500));
    mock.answer("other", { text: "Here.", usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 } });
    await say("failing", "Go.");
    mock.answer("other", failure(400));
    assert.equal((await server.post("/chat", turn("failing", "Again.", { thread_id: "failing" }), as)).status, 502);

    const [answered, failed] = await checkAll("failing", ["failing", "other"]);

    assert.deepEqual(
      answered?.tries.map(({ route, outcome }) => `${route} ${outcome}`),
      ["failing error", "failing error", "failing error", "other ok"],
    );
    assert.deepEqual([answered?.route, answered?.outcome, answered?.stop_reason], ["other", "ok", "end_turn"]);
    assert.deepEqual(answered?.usage, { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 });
    assert.ok(Math.abs((answered?.cost_usd ?? 0) - (10 * 2 + 2 * 8) / 1e6) < 1e-12);
    const { started, first_token, ended } = answered as NonNullable<typeof answered>;
    assert.ok(first_token !== null && started <= first_token && first_token <= ended);
    assert.deepEqual([failed?.outcome, failed?.first_token, failed?.usage], ["error", null, null]);
  });

  test("an aborted call is recorded", async () => {
    const held = gate();
    mock.answer("stopped", says("Once upon", held.opened));
    const stream = await server.stream("/chat/stream", turn("stopped", "Go.", { thread_id: "stopped" }), as);
    await stream.until("text_delta");
    await server.post("/chat/abort", { thread_id: "stopped" }, as);
    await stream.rest();
    held.open();

    const [stopped] = await checkAll("stopped");

    assert.deepEqual([stopped?.outcome, stopped?.estimated], ["aborted", true]);
    assert.ok(stopped?.first_token !== null);
  });

  test("a client's event during a run appears in the next run's prompt only", async () => {
    const held = gate();
    mock.answer("added", ({ earlier }) =>
      earlier === 0
        ? { steps: [{ hold: held.opened }, ...says("").steps] }
        : earlier === 1
          ? calls(sum(1))
          : { text: "Done." },
    );
    await server.post("/chat/thinking", { thread_id: "added", thinking_level: "off" }, as);
    const asked = say("added", "Go.");
    await eventually("the request", async () => mock.requests.find(({ model }) => model === "added"));
    const note = { thread_id: "added", content: "A note.", role: "user", in_context: true };
    assert.equal((await server.post("/chat/sessions/custom", note, as)).status, 200);
    held.open();
    await asked;
    await say("added", "Two.");
    await say("added", "Three.");

    await checkAll("added");
  });

  test("a prompt that was too long is recorded, with its summaries and the next call", async () => {
    const words = `part ${"x".repeat(3_000)}`;
    let refuses = false;
    mock.answer("long", (request) => {
      if (JSON.stringify(request.body.messages).includes("You sum up")) return { text: "They spoke of tea." };
      const isRefused = refuses;
      refuses = false;
      return isRefused ? overflow : { text: "The answer." };
    });
    await say("long", words);
    await say("long", words);
    refuses = true;
    await say("long", "And now?");
    await say("long", "And then?");

    const facts = await checkAll("long");

    assert.ok(facts.some(({ purpose }) => purpose === "summary"));
    assert.equal(facts.find(({ outcome }) => outcome === "error")?.tries.length, 1);
  });

  test("a turn without a thread leaves digests and no text", async () => {
    mock.answer("alone", { text: "Nobody keeps this zyxwv." });
    await server.post("/chat", turn("alone", "Nobody keeps that zyxwv."), as);

    const rows = await eventually("its record", async () => {
      const found = await callsOfAgent(server.dataDir, "alone", "one");
      return found.length === 0 ? undefined : found;
    });

    const [row] = rows;
    assert.equal(rows.length, 1);
    assert.deepEqual([row?.thread_key, row?.bodies, row?.facts.shown], [null, null, null]);
    assert.ok(!JSON.stringify(rows).includes("zyxwv"));
    const { status, json: told } = await server.get(`/runs/${row?.run_id}/requests/1`, as);
    assert.deepEqual([status, told.bodies.messages, told.shown], [200, null, null]);
  });

  test("operators see digests, and request texts with manifests:read", async () => {
    mock.answer("shown", inOrder(calls(sum(1)), { text: "Done." }));
    await say("shown", "Go.");
    const [{ run_id } = { run_id: "" }] = await recordsOf("shown");
    const path = `/runs/${run_id}/requests/2`;

    const whole = await server.get(path, as);
    const digests = await server.get(path, { key: keys.digests });

    const sent = mock.requests.findLast(({ model }) => model === "shown")?.body;
    assert.deepEqual(whole.json.bodies.messages, sent?.messages);
    assert.deepEqual(whole.json.bodies.tools, sent?.tools);
    assert.match(whole.json.bodies.system, /A prompt of the operator's\./);
    assert.deepEqual([whole.json.n, whole.json.of, whole.json.purpose, whole.json.step], [2, 2, "step", 2]);
    assert.deepEqual({ ...digests.json, bodies: 0 }, { ...whole.json, bodies: 0 });
    assert.equal(digests.json.bodies, null);
    assert.ok(!digests.text.includes("operator's") && !digests.text.includes("Go."));
    const refusals = [
      [path, keys.nobody, 403, undefined],
      [path, keys.two, 404, "run_not_found"],
      [`/runs/${run_id}/requests/3`, keys.one, 404, "request_not_found"],
      [`/runs/nothing/requests/1`, keys.one, 404, "run_not_found"],
      [`/runs/${run_id}/requests/0`, keys.one, 422, "invalid_request"],
    ] as const;
    for (const [at, key, status, error] of refusals) {
      const refused = await server.get(at, { key });
      assert.deepEqual([refused.status, refused.json.error], [status, error], at);
    }
  });
});
