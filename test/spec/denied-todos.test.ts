// A denied todo_write changes nothing: not the snapshot, not the stream, not the listeners.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, inTurn, isReply, startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  operator: { scopes: ["*"] },
  caller: { scopes: ["chat:write", "chat:read"] },
});
const tools = ["calculator", "todo_write"];
const list = (content: string) => ["todo_write", { todos: [{ content, status: "pending" }] }] as const;
const itemOf = (content: string) => ({ id: "1", content, status: "pending", active_form: "" });

describe("a denied todo_write", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const guarded = { tools, policies: [{ id: "lists", required_scopes: ["lists:write"], tools: ["todo_write"] }] };
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: { guarded, "one-call": { tools, limits: { max_tool_calls: 1 } } },
      env,
    }));
  });

  const todosOf = async (thread: string) =>
    (await server.get(`/chat/sessions/${thread}`, { key: keys.operator })).json.todos;
  async function framesOf(manifest: string, thread_id: string, key: string) {
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id }), { key });
    return stream.rest();
  }

  test("SESS-018 leaves the list unchanged and emits no todo_updated frame", async () => {
    mock.answer("scripted", inTurn(calls(list("Allowed")), { text: "Listed." }));
    const allowed = await framesOf("guarded", "guarded", keys.operator);
    mock.answer("scripted", inTurn(calls(list("Denied")), { text: "Not listed." }));
    const listener = await server.listen("/chat/stream/guarded", { key: keys.operator });
    const snapshot = await listener.until("snapshot");

    const denied = await framesOf("guarded", "guarded", keys.caller);
    const heard = await framesUntil(listener, isReply);

    const updates = allowed.filter(({ name }) => name === "todo_updated").map(({ json }) => json.data.todos);
    assert.deepEqual(updates, [[itemOf("Allowed")]]);
    assert.deepEqual(snapshot.json.data.todos, [itemOf("Allowed")]);
    assert.match(denied.find(({ name }) => name === "tool_end")?.json.data.output, /policy/);
    for (const frames of [denied, heard]) assert.ok(!frames.some(({ name }) => name === "todo_updated"));
    assert.deepEqual(await todosOf("guarded"), [itemOf("Allowed")]);
  });

  test("SESS-018 creates no list", async () => {
    mock.answer("scripted", inTurn(calls(list("Denied")), { text: "Not listed." }));

    const frames = await framesOf("guarded", "empty", keys.caller);

    assert.ok(!frames.some(({ name }) => name === "todo_updated"));
    assert.deepEqual(await todosOf("empty"), []);
  });

  test("SESS-018 behaves alike by a limit and by a policy", async () => {
    mock.answer("scripted", inTurn(calls(list("First")), calls(list("Second")), { text: "Listed." }));

    const frames = await framesOf("one-call", "limited", keys.caller);

    const updates = frames.filter(({ name }) => name === "todo_updated").map(({ json }) => json.data.todos);
    assert.deepEqual(updates, [[itemOf("First")]]);
    assert.deepEqual(await todosOf("limited"), [itemOf("First")]);
  });
});
