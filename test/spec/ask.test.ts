// POST /chat/ask: a side question is answered from a thread's messages and is not appended to its log.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, gate, inTurn, says, shown, startChat, systemOf, turn } from "../support/chat.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const tools = ["calculator"];
const sum = ["calculator", { expression: "1+1" }] as const;

describe("a side question to a thread", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "usage:read", "audit:read"] },
    two: { tenant_id: "two", scopes: ["chat:write", "chat:read"] },
  });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const of = (model: string, more: object = {}) => ({ model: { id: model }, tools, ...more });
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "live", "gated", "broken", "planner"],
      manifests: {
        plain: of("plain", { system_prompt: { inline: "Be brief." } }),
        live: of("live"),
        gated: of("gated", { approvals: [{ id: "sums", tools }] }),
        broken: of("broken"),
        planner: of("planner", { permissions: { default_mode: "plan", allowed_modes: ["default", "plan"] } }),
      },
      env,
    }));
  });

  const as = (key: keyof typeof keys = "one") => ({ key: keys[key] });
  const ask = (thread_id: string, question: string, key: keyof typeof keys = "one") =>
    server.post("/chat/ask", { thread_id, question }, as(key));
  const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`, as())).json;
  const usageOf = async (thread: string) => (await server.get(`/usage?thread_id=${thread}`, as())).json.items;

  test("SESS-006 is answered by one call without tools, and leaves the thread unchanged", async () => {
    const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
    mock.answer("plain", { text: "It is blue.", usage }, { text: "Blue.", usage });
    await server.post("/chat", turn("plain", "Which colour?", { thread_id: "asked" }), as());
    const before = await snapshot("asked");
    const { status, json } = await ask("asked", "What was the colour?");

    assert.equal(status, 200, JSON.stringify(json));
    const { usage: used, ...answer } = json;
    assert.deepEqual(answer, { thread_id: "one:asked", status: "answered", answer: "Blue." });
    assert.deepEqual([used.input, used.output], [9, 2]);
    assert.deepEqual(await snapshot("asked"), before);
    const request = mock.requests.at(-1);
    assert.deepEqual(shown(request), [
      { role: "user", content: "Which colour?" },
      { role: "assistant", content: "It is blue." },
      { role: "user", content: "What was the colour?" },
    ]);
    assert.equal(request?.body.tools, undefined);
    assert.match(systemOf(request) ?? "", /^Be brief\.\n.*beside the conversation/s);
    assert.equal((await usageOf("asked")).length, 2);
  });

  test("SESS-006 that the thread does not answer is not_in_context", async () => {
    mock.answer("plain", { text: "It is blue." }, { text: " NOT_IN_CONTEXT. " });
    await server.post("/chat", turn("plain", "Which colour?", { thread_id: "unknown" }), as());
    const { json } = await ask("unknown", "And the size?");

    assert.deepEqual([json.status, json.answer], ["not_in_context", ""]);
  });

  test("SESS-006 neither disturbs a live run nor resumes a suspended one", async () => {
    const held = gate();
    mock.answer("live", says("One.", held.opened), { text: "Go." });
    const stream = await server.stream("/chat/stream", turn("live", "go", { thread_id: "live" }), as());
    await framesUntil(stream, ({ name }) => name === "text_delta");
    const live = await ask("live", "What was said?");
    held.open();
    const frames = await stream.rest();
    mock.answer("gated", inTurn(calls(sum)), { text: "A sum." });
    const waiting = await server.stream("/chat/stream", turn("gated", "add", { thread_id: "gated" }), as());
    await framesUntil(waiting, ({ name }) => name === "approval_required");
    const parked = await ask("gated", "What is asked?");
    const { phase, wake } = await snapshot("gated");

    assert.deepEqual([live.json.status, live.json.answer], ["answered", "Go."]);
    assert.equal(frames.find(({ name }) => name === "done")?.json.data.final.content, "One.");
    assert.deepEqual([parked.json.status, parked.json.answer], ["answered", "A sum."]);
    // The prompt leaves out calls without a result, because providers reject them.
    assert.deepEqual(
      shown(mock.requests.at(-1)).map(({ content }) => content),
      ["add", "What is asked?"],
    );
    assert.deepEqual([phase, wake.pendingToolCalls.length], ["turn", 1]);
    await server.post("/chat/abort", { thread_id: "gated" }, as());
    await waiting.rest();
  });

  test("SESS-006 has no tools for an agent that plans either", async () => {
    mock.answer("planner", { text: "Planned." });
    await server.post("/chat", turn("planner", "go", { thread_id: "planner" }), as());
    const { status } = await ask("planner", "What?");

    assert.equal(status, 200);
    assert.equal(mock.requests.at(-1)?.body.tools, undefined);
  });

  test("SESS-006 to a missing thread is 404 even if another tenant has the same id", async () => {
    await server.post("/chat/steer", { thread_id: "only-steered", text: "hi" }, as());
    mock.answer("plain", { text: "Mine." });
    await server.post("/chat", turn("plain", "go", { thread_id: "of-one" }), as());

    for (const [thread, key] of [
      ["nobodys", "one"],
      ["only-steered", "one"],
      ["of-one", "two"],
    ] as const) {
      const { status, json } = await ask(thread, "What?", key);
      assert.deepEqual([status, json.error], [404, "unknown_thread"], thread);
    }
    await server.post("/chat/workspace/edited", { thread_id: "only-edited", path: "a" }, as());
    const { status, json } = await ask("only-edited", "What?");
    assert.deepEqual([status, json.error], [400, "manifest_required"]);
  });

  test("SESS-006 is validated, and a provider that fails is a 502", async () => {
    for (const question of ["", "a".repeat(8001)])
      assert.equal((await ask("asked", question)).status, 422, question.slice(0, 9));
    assert.equal((await ask("a:b", "What?")).status, 400);
    mock.answer("broken", { text: "Fine." });
    await server.post("/chat", turn("broken", "go", { thread_id: "broken" }), as());
    mock.answer("broken", failure(400));
    const { status, json } = await ask("broken", "What?");
    assert.deepEqual([status, json.error], [502, "model_provider_error"]);
  });
});
