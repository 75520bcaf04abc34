// The audit events of a turn, and when they become readable. Tools, models and policies are real; the provider is a
// local server.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, startServer, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  operator: { scopes: ["*"] },
  caller: { scopes: ["chat:write", "audit:read"] },
});
const planted = "planted-secret-value-0001";
const models = ["mock-text", "mock-tools", "mock-status-500", "broken-call", "leak", "twice"];

interface Event {
  readonly event_type: string;
  readonly status: string;
  readonly manifest_id: string;
  readonly principal_subj: string;
  readonly ts: number;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** Calls the calculator with each of these arguments, then answers with the results it received. */
function callsThenSays(...args: readonly object[]): Behaviour {
  return ({ body }) => {
    const messages = body.messages as readonly { role: string; content: string }[];
    if (messages.at(-1)?.role === "tool") return { text: `It is: ${JSON.stringify(args)}` };
    return {
      toolCalls: args.map((each, at) => ({
        id: `call_${at + 1}`,
        name: "calculator",
        arguments: JSON.stringify(each),
      })),
    };
  };
}

describe("audit events", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    mock = await startMockModel();
    atEnd.after(() => mock.close());
    mock.answer("broken-call", callsThenSays({ expression: "1/0" }));
    mock.answer("leak", callsThenSays({ expression: planted }));
    mock.answer("twice", callsThenSays({ expression: "1+1" }, { expression: "2+2" }));
    const agents = Object.fromEntries(models.map((id) => [id, { model: { id }, tools: ["calculator"] }]));
    server = await startServer({
      atEnd,
      env: {
        ...keyed,
        ...modelEnv(mock, models),
        ...manifestEnv(atEnd, {
          ...agents,
          guarded: {
            model: { id: "twice" },
            tools: ["calculator"],
            policies: [{ id: "numbers", required_scopes: ["numbers:use"], tools: ["calc*"] }],
          },
          limited: { model: { id: "twice" }, tools: ["calculator"], limits: { max_tool_calls: 1 } },
        }),
        SVC_SECRET_PLANTED: planted,
      },
    });
  });

  interface Turn {
    readonly text?: string;
    readonly key?: string;
    /** Number of the thread's turns, this one included. */
    readonly turns?: number;
  }

  /** Runs a turn and returns the audit events of its thread, oldest first, once the last of them is readable. */
  async function eventsOf(manifest: string, thread: string, turn: Turn = {}): Promise<Event[]> {
    const { text = "hi", key = keys.caller, turns = 1 } = turn;
    const messages = [{ role: "user", content: text }];
    await server.request("POST", "/chat", { key, body: { manifest, thread_id: thread, messages } });
    return eventually(`final_response of ${thread}`, async () => {
      const { json } = await server.get("/audit?limit=500", { key: keys.operator });
      const events: Event[] = json.items
        .filter(({ payload }: Event) => payload.thread_id === `acme:${thread}`)
        .reverse();
      const finals = events.filter(({ event_type }) => event_type === "final_response");
      return finals.length === turns ? events : undefined;
    });
  }
  const brief = (events: readonly Event[]) => events.map(({ event_type, status }) => `${event_type} ${status}`);

  test("AUDIT-015 AUDIT-018 a turn without tools leaves user_input and final_response once, with origin", async () => {
    const [input, final, ...more] = await eventsOf("mock-text", "plain", { text: "hello there" });

    assert.deepEqual(more, []);
    assert.deepEqual(
      [input?.event_type, input?.status, input?.manifest_id, input?.principal_subj],
      ["user_input", "ok", "mock-text", "caller"],
    );
    assert.equal(input?.payload.user_input, "hello there");
    assert.deepEqual(
      [final?.event_type, final?.status, final?.payload.chars],
      ["final_response", "ok", "Hello from the mock.".length],
    );
    assert.ok((input?.ts ?? 0) <= (final?.ts ?? 0));
  });

  test("AUDIT-015 user_input is written once per turn, with at most 2,000 characters", async () => {
    await eventsOf("mock-text", "two-turns", { text: "a".repeat(5_000) });

    const events = await eventsOf("mock-text", "two-turns", { text: "again", turns: 2 });

    const inputs = events.filter(({ event_type }) => event_type === "user_input");
    assert.deepEqual(
      inputs.map(({ payload }) => payload.user_input),
      ["a".repeat(2_000), "again"],
    );
  });

  test("AUDIT-016 a call that succeeds is tool_call ok, with its tool, id and duration", async () => {
    const events = await eventsOf("mock-tools", "calls");

    assert.deepEqual(brief(events), ["user_input ok", "tool_call ok", "final_response ok"]);
    const { tool, tool_call_id, latency_ms } = events[1]?.payload ?? {};
    assert.deepEqual([tool, tool_call_id], ["calculator", "call_1"]);
    assert.ok(typeof latency_ms === "number" && latency_ms >= 0);
  });

  test("AUDIT-016 a call that fails is tool_call error", async () => {
    const events = await eventsOf("broken-call", "fails");

    assert.deepEqual(brief(events), ["user_input ok", "tool_call error", "final_response ok"]);
    assert.equal(typeof events[1]?.payload.error_code, "string");
  });

  test("AUDIT-016 each of several calls has its own event, and the metrics count them", async () => {
    const { window_since } = (await server.get("/audit/metrics", { key: keys.caller })).json;
    const events = await eventsOf("twice", "several");

    const { json } = await server.get(`/audit/metrics?since=${window_since}`, { key: keys.caller });

    assert.deepEqual(
      events.filter(({ event_type }) => event_type === "tool_call").map(({ payload }) => payload.tool_call_id),
      ["call_1", "call_2"],
    );
    const [calculator] = json.tools;
    assert.ok(calculator.tool === "calculator" && calculator.calls >= 2 && calculator.avg_latency_ms > 0);
  });

  test("AUDIT-003 AUDIT-017 AUDIT-022 a call that a policy refuses is policy_deny denied and no tool_call", async () => {
    const events = await eventsOf("guarded", "denied");

    assert.deepEqual(brief(events), [
      "user_input ok",
      "policy_deny denied",
      "policy_deny denied",
      "final_response error",
    ]);
    for (const { payload } of events.slice(1, 3))
      assert.deepEqual([payload.control, payload.tool], ["policy", "calculator"]);
  });

  test("AUDIT-017 a caller with the policy's scope is not denied", async () => {
    const events = await eventsOf("guarded", "admitted", { key: keys.operator });

    assert.deepEqual(brief(events), ["user_input ok", "tool_call ok", "tool_call ok", "final_response ok"]);
  });

  test("AUDIT-003 AUDIT-022 a call beyond a limit is policy_deny of the control limits", async () => {
    const events = await eventsOf("limited", "limited");

    const denied = events.filter(({ event_type }) => event_type === "policy_deny");
    assert.deepEqual(
      denied.map(({ status, payload }) => [status, payload.control]),
      [["denied", "limits"]],
    );
    assert.equal(events.filter(({ event_type }) => event_type === "tool_call").length, 1);
  });

  test("AUDIT-018 a turn whose model fails leaves final_response error", async () => {
    const events = await eventsOf("mock-status-500", "failing");

    assert.deepEqual(brief(events), ["user_input ok", "final_response error"]);
  });

  test("AUDIT-004 secret values are masked before they are written, in every field", async () => {
    await eventsOf("leak", "leaking", { text: `my key is ${planted}, keep it` });

    const { text } = await server.get("/audit/export", { key: keys.operator });

    assert.ok(text.includes("my key is [REDACTED], keep it"));
    assert.ok(!text.includes(planted));
  });

  test("AUDIT-001 an operator's change of manifests leaves an event with its author", async () => {
    const as = { key: keys.operator };
    const body = (description: string) => ({ manifest: { metadata: { name: "clerk", description } } });
    await server.request("PUT", "/manifests/clerk", { ...as, body: body("one") });
    await server.request("PUT", "/manifests/clerk", { ...as, body: body("two") });
    await server.request("POST", "/manifests/clerk/canary", { ...as, body: { canary_version: 1, canary_weight: 5 } });
    await server.request("DELETE", "/manifests/clerk/canary", as);
    await server.request("POST", "/manifests/clerk/rollback", { ...as, body: { version: 1 } });

    const events = await eventually("the rollback", async () => {
      const { json } = await server.get("/audit?manifest_id=clerk", as);
      return json.items.length === 5 ? json.items : undefined;
    });

    assert.deepEqual(
      events.map(({ event_type, status, principal_subj }: Event) => [event_type, status, principal_subj]).reverse(),
      [
        ["manifest_published", "ok", "operator"],
        ["manifest_published", "ok", "operator"],
        ["manifest_canary_set", "ok", "operator"],
        ["manifest_canary_cleared", "ok", "operator"],
        ["manifest_rolled_back", "ok", "operator"],
      ],
    );
  });
});

describe("the buffer of audit events", () => {
  const atEnd = cleanup();

  test("AUDIT-005 AUDIT-012 recent events are in no list or export until the flush; SIGTERM loses none", async () => {
    const dataDir = tempDir(atEnd);
    const server = await startServer({ atEnd, dataDir, env: { SVC_AUDIT_FLUSH_SECONDS: "3600" } });
    const messages = [{ role: "user", content: "What is 6 * 7?" }];
    const turn = await server.request("POST", "/chat", { body: { manifest: "quick", messages } });

    const listed = (await server.get("/audit")).json.items;
    const exported = (await server.get("/audit/export")).text;
    await server.restart();
    const flushed = (await server.get("/audit")).json.items;

    assert.equal(turn.status, 200);
    assert.deepEqual([listed, exported], [[], ""]);
    assert.deepEqual(
      flushed.map(({ event_type }: Event) => event_type),
      ["final_response", "tool_call", "user_input"],
    );
  });

  test("AUDIT-005 a timer flushes them, every 5 seconds by default", async () => {
    const server = await startServer({ atEnd, env: { SVC_AUDIT_FLUSH_SECONDS: "0.01" } });
    await server.request("POST", "/chat", { body: { manifest: "quick", messages: [{ role: "user", content: "hi" }] } });

    const events = await eventually("final_response", async () => {
      const { items } = (await server.get("/audit")).json;
      return items[0]?.event_type === "final_response" ? items : undefined;
    });

    assert.equal(events.at(-1).event_type, "user_input");
  });
});
