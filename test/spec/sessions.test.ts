// Stored conversations: history, snapshots, lists, search, abort, continue and delete.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, never, says, shown, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const planted = "planted-secret-value-0002";
const models = [
  ...[
    "plain",
    "second",
    "calculates",
    "lists",
    "half",
    "half-json",
    "retried",
    "cut",
    "failing",
    "stuck",
    "counted",
    "busy",
    "mock-echo",
  ],
  ...["no-steps", "mock-reasoning"],
];
const todoList = (content: string) => ["todo_write", { todos: [{ content, status: "in_progress" }] }] as const;

interface Item {
  readonly seq: number;
  readonly role: string | null;
  readonly content: string;
  readonly kind: string;
}

describe("conversations", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        agent: { tools: ["calculator", "todo_write"] },
        other: { model: { id: "second" } },
        hasty: { tools: ["calculator"], recursion_limit: 1, model: { id: "no-steps" } },
        windowed: { model: { id: "counted" }, session: { strategy: "windowed:3" }, tools: ["calculator"] },
        full: { model: { id: "counted" }, session: { strategy: "full_replay" } },
      },
      env: { SVC_SECRET_PLANTED: planted },
    }));
    mock.answer("plain", { text: "The answer." });
    mock.answer("second", { text: "The second." });
    mock.answer("counted", ({ body }) => ({ text: `saw ${(body.messages as unknown[]).length}` }));
    mock.answer("calculates", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    mock.answer("no-steps", calls(["calculator", { expression: "1+1" }]));
    mock.answer(
      "lists",
      inTurn(calls(todoList("First")), calls(todoList("Second")), calls(todoList(" ")), { text: "Listed." }),
    );
    mock.answer("half", says("Half", never), { text: " and whole." });
  });

  const say = (thread_id: string, text = "go", fields: object = {}) =>
    server.post("/chat", turn("agent", text, { thread_id, model: "plain", ...fields }));
  const snapshot = async (thread: string) => (await server.get(`/chat/sessions/${thread}`)).json;
  const historyOf = async (thread: string, query = "") => (await server.get(`/chat/history/${thread}${query}`)).json;
  const texts = (items: readonly Item[]) => items.map(({ role, content }) => [role, content]);

  test("SESS-014 history is the transcript without tool call intents and audit events", async () => {
    await say("history", "go", { model: "calculates" });

    const { messages, events, ...rest } = await historyOf("history");

    assert.deepEqual(rest, { thread_id: "default:history", oldest_seq: 0, has_more: false });
    assert.deepEqual(events, messages);
    const call = { id: "call_1", name: "calculator", args: { expression: "6*7" } };
    assert.deepEqual(messages, [
      { role: "user", content: "go", seq: 0, kind: "message" },
      { role: "assistant", content: "", seq: 1, kind: "message", tool_calls: [call] },
      { role: "tool", content: "42", seq: 3, kind: "tool_result", tool_call_id: "call_1", name: "calculator" },
      { role: "assistant", content: "42.", seq: 4, kind: "message" },
    ]);
    const kinds = (await snapshot("history")).transcript.map(({ kind }: Item) => kind);
    assert.deepEqual(kinds, ["message", "message", "tool_call", "tool_result", "message"]);
  });

  test("SESS-014 a long thread is paged back with before_seq, every event once", async () => {
    const messages = Array.from({ length: 1203 }, (_, at) => ({ role: "user", content: `m${at}` }));
    await server.post("/chat", { manifest: "agent", model: "plain", thread_id: "long", messages });

    const pages: Item[][] = [];
    for (let query = "?limit=500"; ; ) {
      const page = await historyOf("long", query);
      pages.unshift(page.messages);
      if (!page.has_more) {
        assert.equal(page.oldest_seq, 0);
        break;
      }
      assert.equal(page.oldest_seq, page.messages[0].seq);
      query = `?limit=500&before_seq=${page.oldest_seq}`;
    }

    assert.deepEqual(pages.map(({ length }) => length).toReversed(), [500, 500, 204]);
    const all = pages.flat();
    assert.deepEqual(
      all.map(({ seq }) => seq),
      all.map((_, at) => at),
    );
    assert.deepEqual(
      all.map(({ content }) => content).slice(0, -1),
      messages.map(({ content }) => content),
    );
  });

  test("SESS-014 limits and cursors are checked at their bounds", async () => {
    await say("edges");

    const one = await historyOf("edges", "?limit=1");
    const none = await historyOf("edges", "?before_seq=0");
    const beyond = await historyOf("edges", "?before_seq=999999&limit=99999");
    const zero = await server.get("/chat/history/edges?limit=0");
    const words = await server.get("/chat/history/edges?limit=x");

    assert.deepEqual([texts(one.messages), one.oldest_seq, one.has_more], [[["assistant", "The answer."]], 1, true]);
    assert.deepEqual([none.messages, none.oldest_seq, none.has_more], [[], 0, false]);
    assert.equal(beyond.messages.length, 2);
    assert.deepEqual([zero.status, zero.json.error], [400, "limit_must_be_positive"]);
    assert.deepEqual([words.status, words.json.error], [422, "invalid_request"]);
  });

  test("SESS-014 SESS-017 SESS-005 an unknown thread is empty on every route, and nothing is created", async () => {
    const history = await historyOf("unknown");
    const session = await snapshot("unknown");
    const abort = await server.post("/chat/abort", { thread_id: "unknown" });
    const { json } = await server.get("/chat/sessions?limit=500");

    assert.deepEqual(history, {
      thread_id: "default:unknown",
      messages: [],
      events: [],
      oldest_seq: 0,
      has_more: false,
    });
    assert.deepEqual(
      [session.id, session.leafId, session.transcript, session.phase],
      ["default:unknown", null, [], "idle"],
    );
    assert.deepEqual([abort.status, abort.json.ok, abort.json.aborted], [200, true, false]);
    assert.ok(!json.sessions.some(({ id }: { id: string }) => id === "default:unknown"));
  });

  test("SESS-017 the snapshot has every specified key", async () => {
    await say("keys", "go", { model: "mock-reasoning" });

    const session = await snapshot("keys");

    const { createdAt, updatedAt, leafId, transcript, revision, ...rest } = session;
    assert.deepEqual(rest, {
      id: "default:keys",
      name: null,
      parentSessionId: null,
      model: { id: "mock-reasoning" },
      manifest: "agent",
      thinkingLevel: "off",
      permissionMode: "default",
      openQuestions: [],
      outputStyle: null,
      attached: false,
      locked: false,
      labels: {},
      feedback: {},
      queuedSteer: [],
      queuedSteerCount: 0,
      queuedFollowUpCount: 0,
      activeRun: null,
      phase: "idle",
      wake: { fresh: false, headSeq: 2, endedOnAssistant: true, pendingToolCalls: [] },
      todos: [],
    });
    assert.ok(createdAt > 1_700_000_000_000 && updatedAt >= createdAt && Number.isInteger(revision));
    const [user, reply] = transcript;
    assert.deepEqual(Object.keys(user), [
      "id",
      "seq",
      "parentId",
      "kind",
      "role",
      "content",
      "timestamp",
      "status",
      "metadata",
    ]);
    assert.deepEqual([user.parentId, reply.parentId, reply.id, reply.status], [null, user.id, leafId, "complete"]);
    assert.deepEqual([reply.metadata.model, reply.metadata.stop_reason], ["mock-reasoning", "end_turn"]);
    assert.deepEqual(reply.usage, reply.metadata.usage);
  });

  test("SESS-017 the phase is turn while a run is live", async () => {
    const more = gate();
    mock.answer("busy", says("So far", more.opened, "."));
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "phase", model: "busy" }));
    await stream.until("text_delta");

    const during = await snapshot("phase");
    more.open();
    await stream.rest();
    const after = await snapshot("phase");

    assert.deepEqual([during.phase, during.transcript.length], ["turn", 1]);
    assert.deepEqual([after.phase, after.transcript.length], ["idle", 2]);
  });

  test("SESS-018 todos are the last successful todo_write", async () => {
    await say("todos", "go", { model: "lists" });

    const { todos, transcript } = await snapshot("todos");

    const outcomes = transcript
      .filter(({ kind }: Item) => kind === "tool_result")
      .map(({ status }: { status: string }) => status);
    assert.deepEqual(outcomes, ["ok", "ok", "error"]);
    assert.deepEqual(todos, [{ id: "1", content: "Second", status: "in_progress", active_form: "" }]);
  });

  test("SESS-005 POST /chat/abort ends a turn of POST /chat, which answers 200 with its text", async () => {
    mock.answer("half-json", says("So much", never));
    const asked = say("abort-json", "go", { model: "half-json" });
    const listener = await server.listen("/chat/stream/abort-json");
    await listener.until("text_delta");

    const abort = await server.post("/chat/abort", { thread_id: "abort-json" });
    const { status, json } = await asked;
    const again = await server.post("/chat/abort", { thread_id: "abort-json" });
    listener.close();

    assert.deepEqual([abort.json.aborted, again.json.aborted], [true, false]);
    assert.equal(abort.json.snapshot.phase, "aborted");
    assert.equal(status, 200);
    assert.deepEqual([json.final, json.stop_reason], [{ role: "assistant", content: "So much" }, "unknown"]);
    const session = await snapshot("abort-json");
    const last = session.transcript.at(-1);
    assert.deepEqual([last.content, last.status, last.id], ["So much", "aborted", json.leaf_id]);
    assert.deepEqual(abort.json.snapshot, session);
  });

  test("SESS-005 an aborted thread accepts the next turn at once", async () => {
    mock.answer("stuck", says(never));
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "next", model: "stuck" }));
    await stream.until("session_progress");
    await server.post("/chat/abort", { thread_id: "next" });

    const { status, json } = await say("next", "again");
    await stream.rest();

    assert.equal(status, 200);
    assert.deepEqual(texts(json.messages), [
      ["user", "go"],
      ["user", "again"],
      ["assistant", "The answer."],
    ]);
  });

  test("SESS-008 continue resumes an aborted turn without a user message in the log", async () => {
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "continue", model: "half" }));
    await stream.until("text_delta");
    await server.post("/chat/abort", { thread_id: "continue" });
    await stream.rest();

    const { status, json } = await server.post("/chat/continue", { thread_id: "continue", model: "half" });

    assert.equal(status, 200);
    assert.deepEqual(
      [json.continued, json.thread_id, json.model, json.final],
      [true, "default:continue", "half", { role: "assistant", content: " and whole." }],
    );
    const asked = mock.requests.filter(({ model }) => model === "half").at(-1);
    assert.deepEqual(texts(shown(asked) as Item[]), [
      ["user", "go"],
      ["assistant", "Half"],
      ["user", "Continue."],
    ]);
    assert.deepEqual(texts((await historyOf("continue")).messages), [
      ["user", "go"],
      ["assistant", "Half"],
      ["assistant", " and whole."],
    ]);
  });

  test("SESS-008 the phase is retry while a thread is continued, and idle afterwards", async () => {
    const held = gate();
    mock.answer("retried", says("Half", never), says(" and whole.", held.opened));
    const model = "retried";
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "retried", model }));
    await stream.until("text_delta");
    await server.post("/chat/abort", { thread_id: "retried" });
    await stream.rest();
    const phase = async () => (await server.get("/chat/sessions/retried")).json.phase;
    const asked = mock.requests.length;

    assert.equal(await phase(), "aborted");
    const going = server.post("/chat/continue", { thread_id: "retried", model });
    await eventually("the second call", async () => mock.requests.length > asked || undefined);
    assert.equal(await phase(), "retry");
    held.open();
    await going;
    assert.equal(await phase(), "idle");
  });

  test("SESS-008 continue after a model failure answers the pending user message", async () => {
    mock.answer(
      "failing",
      { status: 400, headers: { "content-type": "application/json" }, steps: [{ send: "{}" }] },
      { text: "Now." },
    );
    const failed = await say("after-error", "go", { model: "failing" });

    const { status, json } = await server.post("/chat/continue", {
      thread_id: "after-error",
      manifest: "agent",
      model: "failing",
    });

    assert.deepEqual([failed.status, status], [502, 200]);
    assert.deepEqual(texts(json.messages), [
      ["user", "go"],
      ["assistant", "Now."],
    ]);
    assert.deepEqual(texts((await historyOf("after-error")).messages), texts(json.messages));
  });

  test("SESS-008 continue after a step limit starts from the unanswered results", async () => {
    const truncated = await server.post("/chat", turn("hasty", "go", { thread_id: "out-of-steps" }));

    const { status, json } = await server.post("/chat/continue", {
      thread_id: "out-of-steps",
      manifest: "agent",
      model: "plain",
    });

    assert.deepEqual([truncated.json.stop_reason, status, json.final.content], ["max_turns", 200, "The answer."]);
    assert.deepEqual(
      json.messages.map(({ role }: Item) => role),
      ["user", "assistant", "tool", "assistant"],
    );
  });

  test("SESS-008 continue does nothing on an empty or complete thread", async () => {
    await say("complete");

    const empty = await server.post("/chat/continue", { thread_id: "empty", manifest: "agent" });
    const nameless = await server.post("/chat/continue", { thread_id: "empty" });
    const complete = await server.post("/chat/continue", { thread_id: "complete" });
    const unknown = await server.post("/chat/continue", { thread_id: "complete", manifest: "nobody" });

    assert.deepEqual(
      [empty.status, empty.text],
      [400, '{"error":"nothing_to_continue","detail":"nothing_to_continue"}'],
    );
    assert.deepEqual([nameless.status, nameless.json.error], [400, "manifest_required"]);
    assert.deepEqual(
      [complete.status, complete.text],
      [400, '{"error":"already_complete","detail":"already_complete"}'],
    );
    assert.deepEqual([unknown.status, unknown.json.error], [404, "unknown_manifest:nobody"]);
    assert.equal((await snapshot("empty")).leafId, null);
  });

  test("SESS-015 DELETE removes the thread from snapshot, history, list and search", async () => {
    await say("doomed", "xylophone concert");
    await eventually("the words in the index", async () => {
      const { json } = await server.get("/chat/sessions/search?q=xylophone");
      return json.hits.length > 0 || undefined;
    });

    const { status, json } = await server.request("DELETE", "/chat/history/doomed");

    assert.deepEqual([status, json], [200, { status: "deleted", thread_id: "default:doomed" }]);
    assert.deepEqual((await historyOf("doomed")).messages, []);
    assert.equal((await snapshot("doomed")).leafId, null);
    const { json: list } = await server.get("/chat/sessions?limit=500");
    assert.ok(!list.sessions.some(({ id }: { id: string }) => id === "default:doomed"));
    assert.deepEqual((await server.get("/chat/sessions/search?q=xylophone")).json.hits, []);
    const again = await server.request("DELETE", "/chat/history/doomed");
    assert.equal(again.status, 200);
  });

  test("SESS-015 a deleted thread starts anew", async () => {
    const first = await say("reborn", "one");
    await server.request("DELETE", "/chat/history/reborn");

    const second = await say("reborn", "two");

    assert.deepEqual(texts(second.json.messages)[0], ["user", "two"]);
    assert.equal((await historyOf("reborn")).messages[0].seq, 0);
    assert.notEqual(second.json.leaf_id, first.json.leaf_id, "no id is given twice");
  });

  test("SESS-015 a thread with a live run is not deleted: 409 run_in_progress:<run id>", async () => {
    const more = gate();
    mock.answer("cut", says("So far", more.opened, "."));
    const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "live", model: "cut" }));
    await stream.until("text_delta");

    const refused = await server.request("DELETE", "/chat/history/live");
    more.open();
    const frames = await stream.rest();

    assert.equal(refused.status, 409);
    assert.match(refused.json.error, /^run_in_progress:[0-9a-f]{32}$/);
    assert.equal(refused.json.detail, refused.json.error);
    assert.equal(wordsOf(frames), ".");
    assert.equal((await historyOf("live")).messages.length, 2);
  });

  test("SESS-016 sessions are listed newest first, each once, in pages", async () => {
    for (const thread of ["list-a", "list-b", "list-c", "list-d"]) await say(thread, `About ${thread}`);
    await say("list-b", "again");
    const mine = ({ id }: { id: string }) => id.startsWith("default:list-");

    const whole = (await server.get("/chat/sessions?limit=500")).json;
    const paged: { id: string }[] = [];
    for (let query = "?limit=2"; query !== ""; ) {
      const { json } = await server.get(`/chat/sessions${query}`);
      assert.deepEqual(json.items, json.sessions);
      paged.push(...json.sessions);
      query = json.next_cursor === null ? "" : `?limit=2&cursor=${encodeURIComponent(json.next_cursor)}`;
    }

    assert.deepEqual(
      whole.sessions.filter(mine).map(({ id }: { id: string }) => id),
      ["default:list-b", "default:list-d", "default:list-c", "default:list-a"],
    );
    assert.deepEqual(paged, whole.sessions);
    assert.equal(whole.next_cursor, null);
  });

  test("SESS-016 a row has the specified keys, and a cut and masked preview of the first message", async () => {
    // The preview shows a known secret unmasked: masking would confirm a correct guess to its author (decision 77).
    await say("row", `Look:\n  ghp_${"aB3".repeat(12)}  ${planted} ${"x".repeat(300)}`);
    await server.post("/chat", turn("other", "later", { thread_id: "row" }));

    const { json } = await server.get("/chat/sessions?limit=1");

    const { createdAt, updatedAt, preview, ...row } = json.sessions[0];
    assert.deepEqual(row, { id: "default:row", parentSessionId: null, sessionName: null, manifest: "other" });
    assert.ok(updatedAt >= createdAt);
    assert.equal(preview.length, 120);
    assert.ok(preview.startsWith(`Look: [REDACTED] ${planted} xxx`));
  });

  test("SESS-016 limits outside 1 to 500 and a cursor of another list are refused", async () => {
    for (const limit of ["0", "501", "x"]) {
      const { status, json } = await server.get(`/chat/sessions?limit=${limit}`);
      assert.deepEqual([status, json.error], [422, "invalid_request"], limit);
    }
    for (const cursor of ["x", "e30", "bnVsbA"]) {
      const { status, json } = await server.get(`/chat/sessions?cursor=${cursor}`);
      assert.deepEqual([status, json.error], [400, "invalid_cursor"], cursor);
    }
  });

  test("SESS-020 full text search finds users' and agents' words, in any form, with the thread", async () => {
    await say("search-1", "The zeppelins were flying over the harbour");
    await say("search-2", "A zeppelin and another zeppelin");
    const search = async (query: string) => (await server.get(`/chat/sessions/search?${query}`)).json;

    const found = await eventually("both threads in the index", async () => {
      const answer = await search("q=zeppelin");
      return answer.hits.length === 2 ? answer : undefined;
    });

    assert.equal(found.query, "zeppelin");
    const hit = found.hits.find(({ thread_id }: { thread_id: string }) => thread_id === "default:search-1");
    const { rank, ...rest } = hit;
    const [event] = (await snapshot("search-1")).transcript;
    assert.deepEqual(rest, {
      tenant_id: "default",
      thread_id: "default:search-1",
      seq: 0,
      content: "The zeppelins were flying over the harbour",
      event_id: event.id,
    });
    assert.equal(typeof rank, "number");
    assert.equal((await search("q=zeppelin+fly")).hits.length, 1);
    assert.equal((await search("q=zeppelin&limit=1")).hits.length, 1);
    assert.deepEqual(await search("q="), { query: "", hits: [] });
    assert.deepEqual((await search("q=nowhere-to-be-found")).hits, []);
  });

  test("SESS-025 full_replay sends the model the whole conversation, windowed:N N messages", async () => {
    const finals: Record<string, string[]> = { full: [], windowed: [] };
    for (const manifest of ["full", "windowed"]) {
      for (const text of ["one", "two", "three"]) {
        const { json } = await server.post("/chat", turn(manifest, text, { thread_id: `of-${manifest}` }));
        finals[manifest]?.push(json.final.content);
      }
    }

    assert.deepEqual(finals.full, ["saw 1", "saw 3", "saw 5"]);
    assert.deepEqual(finals.windowed, ["saw 1", "saw 3", "saw 3"]);
    const asked = mock.requests.filter(({ model }) => model === "counted").at(-1);
    assert.deepEqual(texts(shown(asked) as Item[]), [
      ["user", "two"],
      ["assistant", "saw 3"],
      ["user", "three"],
    ]);
    const { json } = await server.post("/chat", turn("windowed", "four", { thread_id: "of-windowed" }));
    assert.deepEqual(
      json.messages.map(({ content }: Item) => content),
      ["three", "saw 3", "four", "saw 3"],
      "what the last call was shown, and this turn's messages",
    );
    assert.equal((await historyOf("of-windowed")).messages.length, 8, "the log has all of it");
  });

  test("SESS-025 a window keeps a tool call with its results, or drops both", async () => {
    const thread_id = "window-tools";
    await server.post("/chat", turn("windowed", "go", { thread_id, model: "calculates" }));

    await server.post("/chat", turn("windowed", "and now", { thread_id }));

    const asked = mock.requests.filter(({ model }) => model === "counted").at(-1);
    assert.deepEqual(
      shown(asked).map(({ role }) => role),
      ["assistant", "user"],
    );
  });

  test("SESS-025 SESS-027 SESS-026 SESS-028 session fields that this version does not support are refused, not ignored", async () => {
    const refusedAs = async (session: object) => {
      const manifest = { metadata: { name: "s" }, spec: { session } };
      const { status, json } = await server.request("PUT", "/manifests/s", { body: { manifest } });
      assert.deepEqual([status, json.error], [422, "invalid_manifest"], JSON.stringify(session));
      return json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${loc.join(".")} ${type}`);
    };

    for (const strategy of ["windowed", "windowed:0", "windowed:1001", "replay", "semantic:0", "summarizing"])
      assert.deepEqual(await refusedAs({ strategy }), ["spec.session.strategy pattern"], strategy);
    for (const mode of ["steering_mode", "follow_up_mode"]) {
      assert.deepEqual(await refusedAs({ [mode]: "some" }), [`spec.session.${mode} enum`]);
    }
    assert.deepEqual(await refusedAs({ compact_after_turn: true }), ["spec.session.compact_after_turn conflict"]);
  });
});
