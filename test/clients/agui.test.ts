// The protocol AG-UI: the official client runs turns, and every event matches the official schemas.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { type BaseEvent, HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { calls, gate, inTurn, says, shown, startChat } from "../support/chat.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["audit:read"] },
  other: { tenant_id: "umbra", scopes: ["*"] },
});

describe("clients of AG-UI", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain"],
      manifests: {
        plain: { tools: ["calculator"] },
        sums: { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        durable: { execution: { mode: "durable" } },
      },
      env,
    }));
  });

  const agentOf = (manifest: string, threadId: string, key = keys.ann) =>
    new HttpAgent({ url: `${server.url}/agui/${manifest}`, threadId, headers: { authorization: `Bearer ${key}` } });

  /** Runs a turn and returns its events, each checked by the official schema. */
  async function eventsOf(agent: HttpAgent, options: Parameters<HttpAgent["runAgent"]>[0] = {}): Promise<BaseEvent[]> {
    const events: BaseEvent[] = [];
    await agent.runAgent(options, {
      onEvent: ({ event }) => {
        EventSchemas.parse(event);
        events.push(event);
      },
    });
    return events;
  }

  test("a turn with a tool streams text, the call and its result, and the history is the thread's", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "6 * 7" }]), { text: ["It is ", "42."] }));
    const agent = agentOf("plain", "agui-1");
    agent.addMessage({ id: "1", role: "user", content: "What is 6 * 7?" });

    const events = await eventsOf(agent, { context: [{ description: "page", value: "orders" }] });
    mock.answer("plain", { text: ["42, still."] });
    agent.addMessage({ id: "2", role: "user", content: "And again?" });
    await eventsOf(agent);

    const types = events.map(({ type }) => type).filter((type, at, all) => type !== all[at - 1]);
    assert.deepEqual(types.slice(0, 5), [
      ...["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"],
    ]);
    assert.deepEqual(types.slice(-4), [
      "TEXT_MESSAGE_START",
      "TEXT_MESSAGE_CONTENT",
      "TEXT_MESSAGE_END",
      "RUN_FINISHED",
    ]);
    assert.deepEqual(
      agent.messages.filter(({ role }) => role === "tool" || role === "assistant").map(({ content }) => content ?? ""),
      ["", "42", "It is 42.", "42, still."],
    );
    const { json } = await server.get("/chat/history/agui-1", { key: keys.ann });
    const said = json.messages.filter(({ role }: { role: string }) => role === "user");
    assert.deepEqual(
      said.map(({ content }: { content: string }) => content),
      ["What is 6 * 7?\n\nContext of the application:\n- page: orders", "And again?"],
    );
  });

  test("a tool of the client ends the run, and its result continues the thread", async () => {
    const parameters = { type: "object", properties: { city: { type: "string" } } };
    const tools = [{ name: "weather", description: "The weather of a city.", parameters }];
    mock.answer("plain", inTurn(calls(["weather", { city: "Riga" }]), { text: ["Sunny."] }));
    const agent = agentOf("plain", "agui-2");
    agent.addMessage({ id: "1", role: "user", content: "How is Riga?" });

    const first = await eventsOf(agent, { tools });
    const call = agent.messages.flatMap((message) =>
      message.role === "assistant" ? (message.toolCalls ?? []) : [],
    )[0];
    assert.equal(call?.function.arguments, '{"city":"Riga"}');
    agent.addMessage({ id: "2", role: "tool", toolCallId: call?.id ?? "", content: "18 degrees" });
    await eventsOf(agent, { tools });

    assert.equal(first.at(-1)?.type, "RUN_FINISHED");
    assert.equal(shown(mock.requests.at(-1)).at(-1)?.content, "18 degrees");
    assert.equal(agent.messages.at(-1)?.content, "Sunny.");
  });

  test("an approval is a custom event, and its decision continues the run", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: ["2"] }));
    const agent = agentOf("sums", "agui-3");
    agent.addMessage({ id: "1", role: "user", content: "1 + 1?" });

    await agent.runAgent(
      {},
      {
        onCustomEvent: async ({ event }) => {
          if (event.name !== "approval_required") return;
          const { approval_id } = event.value as { approval_id: string };
          await server.post(`/approvals/${approval_id}/decide`, { decision: "approved" }, { key: keys.ann });
        },
      },
    );

    assert.equal(agent.messages.at(-1)?.content, "2");
  });

  test("a durable run, a failed model and a stopped run end with their own events", async () => {
    mock.answer("plain", { text: ["Done."] });
    const durable = agentOf("durable", "agui-4");
    durable.addMessage({ id: "1", role: "user", content: "Work" });
    const ofDurable = await eventsOf(durable);
    mock.answer("plain", failure(400));
    const failed = agentOf("plain", "agui-5");
    failed.addMessage({ id: "1", role: "user", content: "Fail" });
    const ofFailed: BaseEvent[] = [];
    await failed.runAgent({}, { onEvent: ({ event }) => void ofFailed.push(event) }).catch(() => {});
    const held = gate();
    mock.answer("plain", says("Sto", held.opened, "pped"));
    const stopped = agentOf("plain", "agui-6");
    stopped.addMessage({ id: "1", role: "user", content: "Stop" });
    const ofStopped = await eventsOf2(stopped, async (event) => {
      if (event.type !== "TEXT_MESSAGE_CONTENT") return;
      await server.post("/chat/abort", { thread_id: "agui-6" }, { key: keys.ann });
    });
    held.open();

    assert.equal(durable.messages.at(-1)?.content, "Done.");
    assert.deepEqual([ofDurable[0]?.type, ofDurable.at(-1)?.type], ["RUN_STARTED", "RUN_FINISHED"]);
    assert.equal(ofFailed.at(-1)?.type, "RUN_ERROR");
    assert.deepEqual((ofStopped.at(-1) as unknown as { outcome: object }).outcome, { type: "cancelled" });
  });

  async function eventsOf2(agent: HttpAgent, onEvent: (event: BaseEvent) => Promise<void>): Promise<BaseEvent[]> {
    const events: BaseEvent[] = [];
    await agent.runAgent(
      {},
      {
        onEvent: async ({ event }) => {
          EventSchemas.parse(event);
          events.push(event);
          await onEvent(event);
        },
      },
    );
    return events;
  }

  test("refusals are those of POST /chat/stream", async () => {
    const input = (fields: object) => ({
      ...{ threadId: "agui-7", runId: "r", tools: [], context: [], state: {}, forwardedProps: {} },
      messages: [{ id: "1", role: "user", content: "Hi" }],
      ...fields,
    });
    // String() of this object throws.
    const odd = { toString: 1 };
    const user = (content: unknown) => ({ role: "user", content });
    const hostile = [
      user(odd),
      user(null),
      user(7),
      user([{ type: odd }]),
      user([null]),
      user([{ type: "image", source: odd }]),
      user([{ type: "image", source: { type: odd, value: "x" } }]),
      user([{ type: "image", source: { type: "data", value: "x", mimeType: odd } }]),
      { role: odd, content: "x" },
      { role: "tool", toolCallId: odd, content: odd },
      { role: "assistant", content: odd, toolCalls: [odd] },
      { role: "developer", content: odd },
    ];
    const cases: readonly [string, object, string | undefined, number, string | undefined][] = [
      ["nobody", {}, keys.ann, 404, "unknown_manifest"],
      ["plain", { threadId: "a/b" }, keys.ann, 400, "invalid_thread_id"],
      ["plain", { messages: [] }, keys.ann, 422, "invalid_request"],
      ["plain", { messages: [{ role: "robot" }] }, keys.ann, 422, "invalid_request"],
      ...hostile.map((message): [string, object, string, number, string] => {
        const context = [{ description: "page", value: "orders" }];
        return ["plain", { messages: [message], context }, keys.ann, 422, "invalid_request"];
      }),
      ["plain", { messages: [user([{ type: "x".repeat(5_000) }])] }, keys.ann, 422, "unsupported_part"],
      ["plain", { tools: [{ name: "calculator", parameters: {} }] }, keys.ann, 422, undefined],
      ["plain", { tools: [{ name: "bad name" }] }, keys.ann, 422, "invalid_request"],
      ["plain", { resume: [{ interruptId: "x", status: "resolved" }] }, keys.ann, 400, undefined],
      ["plain", {}, undefined, 401, "unauthorized"],
    ];

    for (const [manifest, fields, key, status, code] of cases) {
      const answer = await server.post(`/agui/${manifest}`, input(fields), key === undefined ? {} : { key });
      assert.equal(answer.status, status, `${JSON.stringify(fields)}: ${answer.text}`);
      assert.ok(answer.text.length < 1_000);
      if (code !== undefined) assert.match(answer.json.error, new RegExp(`^${code}`));
    }
    const theirs = await server.post("/agui/plain", input({ threadId: "agui-1" }), { key: keys.other });
    assert.doesNotMatch(JSON.stringify(shown(mock.requests.at(-1))), /And again/);
    assert.equal(theirs.status, 200);
  });
});
