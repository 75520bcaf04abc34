// The contract with an existing web client (shapes, section 13): its requests, and the fields of answers that it reads.
// The client's parsing is repeated here as code, so a missing field breaks a test before it breaks the client.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, startChat, turn } from "../support/chat.ts";
import { drawnTurns } from "../support/drawn-turns.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import { gif } from "../support/image-bytes.ts";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../support/mock-anthropic.ts";
import type { MockModel } from "../support/mock-model.ts";
import { onOneHost } from "../support/on-two-hosts.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ web: { sub: "web", scopes: ["*"] } });
const sum = ["calculator", { expression: "6*7" }] as const;
/** Returns a call with its own sum for each test, because equal calls share one approval request. */
const sumOf = (n: number) => calls(["calculator", { expression: `1+${n}` }]);
/** The deadline that the client assumes for rows without one. */
const clientDeadlineMs = 300_000;

describe("the web client's contract", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let claude: MockAnthropic;
  let threads = 0;
  before(async () => {
    claude = await startMockAnthropic();
    atEnd.after(() => claude.close());
    const gated = (fields: object = {}) => ({
      tools: ["calculator"],
      approvals: [{ id: "sums", tools: ["calculator"], description: "Sums cost money.", ...fields }],
    });
    ({ server, mock } = await startChat(atEnd, {
      models: ["plain", "scripted", "held"],
      routes: {
        "claude-a": { provider: "anthropic", model: "claude-a", context_window: 200_000 },
        keyless: { provider: "groq", model: "any" },
      },
      providers: {
        anthropic: { base_url: claude.url, api_key: mockAnthropicKey },
        groq: { api_key: "secret:NOT_THERE" },
      },
      manifests: {
        agent: {
          metadata: {
            description: "An agent.",
            starters: [{ title: "Hello", prompt: "Say hello." }],
            greeting: { headline: "Welcome" },
          },
          spec: { tools: ["calculator"] },
        },
        hasty: { tools: ["calculator"], recursion_limit: 1 },
        gated: gated(),
        brief: gated({ ttl_seconds: 0.5 }),
        planner: { pattern: "deep" },
        thinker: { model: { id: "claude-a", thinking_level: "high" }, tools: ["calculator"] },
      },
      env: { ...env, SVC_LEASE_ENFORCE: "strict" },
    }));
    mock.answer("plain", { text: "Yes." });
  });

  const fresh = (): string => `w${++threads}`;
  /** The id by which the client knows a thread: the part after the last colon. */
  const suffixOf = (id: string): string => id.slice(id.lastIndexOf(":") + 1);
  const as = (headers: Readonly<Record<string, string>> = {}) => ({ key: keys.web, headers });
  const get = async (path: string) => ok(await server.get(path, as())).json;
  const post = async (path: string, body: object) => ok(await server.post(path, body, as())).json;
  function ok(answer: Answer): Answer {
    assert.equal(answer.status, 200, answer.text);
    return answer;
  }
  const say = (thread: string, fields: object = {}) =>
    post("/chat", turn("agent", "Hello.", { thread_id: thread, model: "plain", ...fields }));
  const stream = (thread: string, manifest: string, fields: object = {}, headers = {}) =>
    server.stream(
      "/chat/stream",
      turn(manifest, "Hello.", { thread_id: thread, model: "scripted", ...fields }),
      as(headers),
    );
  const pending = (thread: string) =>
    eventually("a request", async () => (await get(`/approvals?status=pending&thread_id=${thread}`)).requests[0]);

  test("OPS-013 every path of the client is distinct, without a trailing slash, in the reference", async () => {
    const paths = [
      "GET /v1/models",
      ..."chat chat/stream chat/tool_result chat/steer chat/abort chat/continue chat/thinking chat/fork"
        .split(" ")
        .map((path) => `POST /${path}`),
      ..."compact rewind ui sessions/lease sessions/lease/release sessions/name sessions/label sessions/feedback"
        .split(" ")
        .map((path) => `POST /chat/${path}`),
      ..."stream/{thread_id} sessions sessions/{thread_id} sessions/{thread_id}/lease sessions/{thread_id}/export"
        .split(" ")
        .map((path) => `GET /chat/${path}`),
      "GET /chat/sessions/search",
      "GET /chat/history/{thread_id}",
      "DELETE /chat/history/{thread_id}",
      "POST /files",
      "GET /files/{file_id}",
      "GET /approvals",
      "POST /approvals/{approval_id}/decide",
      "GET /plans",
      "DELETE /plans/{plan_id}",
      "GET /usage",
      "GET /audit",
      "GET /manifests",
      "GET /auth/methods",
    ];

    const reference = await get("/openapi.json");

    for (const each of paths) {
      const [method = "", path = ""] = each.split(" ");
      assert.ok(reference.paths[path]?.[method.toLowerCase()], each);
      if (path.startsWith("/chat/stream/")) continue;
      const sent = await server.request(method, path.replace(/\{\w+\}/, "none"), {
        ...as(),
        ...(method === "POST" && { body: {} }),
      });
      // A missing or renamed route would give the router's 404, a 405 or a redirect.
      assert.ok(sent.status < 300 || sent.status === 422 || sent.json.detail === "not_found", `${each}: ${sent.text}`);
    }
  });

  test("OPS-013 409 details tell watchers from clients without a lease; the token admits", async () => {
    const thread = fresh();
    await say(thread);
    const lease = (fields: object) => post("/chat/sessions/lease", { thread_id: thread, ...fields });
    const { token } = await lease({ holder_id: "tab-1" });
    const watching = await lease({ holder_id: "tab-2", mode: "shared" });
    const event_id = (await get(`/chat/sessions/${thread}`)).leafId;
    const driving: Readonly<Record<string, object>> = {
      "/chat": turn("agent", "Hi.", { model: "plain" }),
      "/chat/stream": turn("agent", "Hi.", { model: "plain" }),
      "/chat/tool_result": { tool_call_id: "none" },
      "/chat/ui": { request_id: "none" },
      "/chat/abort": {},
      "/chat/thinking": { thinking_level: "low" },
      "/chat/sessions/name": { name: "Mine" },
      "/chat/sessions/label": { event_id, label: "here" },
      "/chat/compact": { manifest: "agent" },
      "/chat/rewind": { event_id, summarize: false },
      "/chat/steer": { text: "Go on.", kind: "follow_up" },
    };

    for (const [path, body] of Object.entries(driving)) {
      const sent = async (headers: Readonly<Record<string, string>>) => {
        const { status, text } = await server.post(path, { thread_id: thread, ...body }, as(headers));
        return status === 200 ? [200] : [status, JSON.parse(text).detail];
      };
      assert.deepEqual(await sent({ "x-svc-lease-token": watching.token }), [409, "lease_read_only"], path);
      assert.deepEqual(await sent({}), [409, "lease_held"], path);
      assert.deepEqual(await sent({ "x-svc-lease-token": token }), [200], path);
    }
    const held = await get(`/chat/sessions/${thread}/lease`);
    assert.deepEqual([held.locked, held.attached, held.mode, held.observers], [true, true, "exclusive", 1]);
    // Watchers may fork the thread and rate an answer.
    await post("/chat/fork", { thread_id: thread, new_thread_id: fresh() });
    await post("/chat/sessions/feedback", { thread_id: thread, event_id, rating: "up" });
  });

  test("OPS-013 a keyed stream is awaited while it runs, replayed after, and ends with [DONE]", async () => {
    const thread = fresh();
    const more = gate();
    mock.answer("held", says("First", more.opened, " and last."));
    const headers = { "idempotency-key": "key-1" };

    const first = await stream(thread, "agent", { model: "held" }, headers);
    await first.until("text_delta");
    const meanwhile = await stream(thread, "agent", { model: "held" }, headers);
    const other = await stream(thread, "agent", { model: "plain" }, headers);
    const without = await server.stream("/chat/stream", turn("agent", "Hello."), as(headers));
    more.open();
    const frames = await first.rest();
    const again = await stream(thread, "agent", { model: "held" }, headers);
    const replayed = await again.rest();

    const detail = async (answer: typeof first): Promise<unknown[]> => {
      let text = "";
      for await (const piece of answer.bytes()) text += piece;
      return [answer.status, JSON.parse(text).detail];
    };
    assert.deepEqual(await detail(meanwhile), [409, "idempotency_in_progress"]);
    assert.deepEqual(await detail(other), [422, "idempotency_key_reused"]);
    assert.deepEqual(await detail(without), [400, "idempotency_key_requires_thread_id"]);
    assert.deepEqual([frames.at(-1)?.name, replayed.at(-1)?.name], ["[DONE]", "[DONE]"]);
    assert.equal(again.headers["idempotent-replayed"], "true");
    assert.deepEqual(
      drawnTurns(
        replayed.slice(0, -1).map(({ json }) => json.data),
        "snake",
      ).map(({ role, text }) => [role, text]),
      [
        ["user", "Hello."],
        ["assistant", "First and last."],
      ],
    );
  });

  test("OPS-013 a keyed stream that fails says so before its [DONE], live and replayed", async () => {
    const headers = { "idempotency-key": "key-2" };
    const thread = fresh();
    mock.answer("scripted", { text: [], wire: { done: false }, finishReason: null });

    const live = await (await stream(thread, "agent", { model: "scripted" }, headers)).rest();
    const replayed = await (await stream(thread, "agent", { model: "scripted" }, headers)).rest();

    for (const frames of [live, replayed]) {
      assert.equal(frames.at(-1)?.name, "[DONE]");
      assert.equal(typeof frames.find(({ name }) => name === "on_error")?.json.data.message, "string");
    }
  });

  test("OPS-013 /v1/models lists manifests by name, with details under svc", async () => {
    const { data } = await get("/v1/models");

    const agent = data.find(({ id }: { id: string }) => id === "agent");
    assert.deepEqual(agent.svc.starters, [{ title: "Hello", prompt: "Say hello." }]);
    assert.equal(agent.svc.greeting.headline, "Welcome");
    assert.deepEqual([agent.svc.providerModel, agent.svc.description], ["plain", "An agent."]);
    for (const { id, svc } of data) {
      assert.equal(typeof svc.contextWindow, "number", id);
      assert.ok(Array.isArray(svc.starters), id);
      assert.ok(svc.greeting === null || typeof svc.greeting.headline === "string", id);
    }
    assert.equal(data.find(({ id }: { id: string }) => id === "thinker").svc.contextWindow, 200_000);
  });

  test("OPS-013 a list row is found by the part after the last colon of its id", async () => {
    const [thread, fork] = [fresh(), fresh()];
    await say(thread);
    await post("/chat/sessions/name", { thread_id: thread, name: "A name" });
    await post("/chat/fork", { thread_id: thread, new_thread_id: fork });

    const { sessions, items } = await get("/chat/sessions");

    assert.deepEqual(sessions, items);
    const row = (suffix: string) => items.find(({ id }: { id: string }) => suffixOf(id) === suffix);
    assert.deepEqual(
      [row(thread).sessionName, row(thread).preview, row(thread).manifest, row(thread).parentSessionId],
      ["A name", "Hello.", "agent", null],
    );
    assert.equal(suffixOf(row(fork).parentSessionId), thread);
    for (const { createdAt, updatedAt } of items)
      assert.ok(Number.isInteger(createdAt) && createdAt <= updatedAt && updatedAt <= Date.now());
  });

  test("OPS-013 history, snapshot and session events show the same conversation", async () => {
    const thread = fresh();
    mock.answer("scripted", inTurn(calls(sum), { text: "A moment. ", ...calls(sum) }, { text: "It is 42." }));
    await say(thread, { model: "scripted" });
    await post("/chat/sessions/custom", { thread_id: thread, content: "A note.", role: "user", in_context: true });
    await post("/chat/sessions/label", { thread_id: thread, event_id: await leafOf(thread), label: "here" });
    await post("/chat/thinking", { thread_id: thread, thinking_level: "low" });

    const { transcript, leafId } = await get(`/chat/sessions/${thread}`);
    const history = await get(`/chat/history/${thread}`);
    const tail = await server.listen(`/chat/stream/${thread}?last_event_id=0`, as());
    const events: { seq: number; [field: string]: unknown }[] = [];
    while ((events.at(-1)?.seq ?? -1) < transcript.at(-1).seq)
      events.push((await tail.until("session_event")).json.data);
    tail.close();

    const call = { name: "calculator", args: { expression: "6*7" }, output: "42" };
    const expected = [
      { role: "user", text: "Hello.", calls: [], thinking: "" },
      { role: "assistant", text: "A moment. ", calls: [call, call], thinking: "" },
      { role: "assistant", text: "It is 42.", calls: [], thinking: "" },
      { role: "user", text: "A note.", calls: [], thinking: "" },
    ];
    assert.deepEqual(drawnTurns(transcript, "camel"), expected);
    assert.deepEqual(drawnTurns(history.messages, "snake"), expected);
    assert.deepEqual(history.messages, history.events);
    assert.deepEqual(drawnTurns(events as never, "snake"), expected);
    assert.ok(transcript.some(({ id }: { id: string }) => id === leafId));
    for (const { toolName, kind } of transcript) if (kind === "tool_result") assert.equal(toolName, "calculator");
  });

  const leafOf = async (thread: string): Promise<string> => (await get(`/chat/sessions/${thread}`)).leafId;

  test("OPS-013 a transcript cut at its leaf is the active branch, with marks and wake", async () => {
    const thread = fresh();
    const first = await say(thread);
    await say(thread);
    await post("/chat/rewind", { thread_id: thread, event_id: first.leaf_id, summarize: false });
    await say(thread, { messages: [{ role: "user", content: "Otherwise?" }] });
    const leaf = await leafOf(thread);
    await post("/chat/sessions/label", { thread_id: thread, event_id: leaf, label: "good" });
    await post("/chat/sessions/feedback", { thread_id: thread, event_id: leaf, rating: "up", note: "Yes!" });

    const snapshot = await get(`/chat/sessions/${thread}`);

    const end = snapshot.transcript.findIndex(({ id }: { id: string }) => id === snapshot.leafId);
    assert.ok(end >= 0);
    assert.deepEqual(
      drawnTurns(snapshot.transcript.slice(0, end + 1), "camel").map(({ text }) => text),
      ["Hello.", "Yes.", "Otherwise?", "Yes."],
    );
    assert.deepEqual(snapshot.labels, { [leaf]: "good" });
    assert.deepEqual(Object.keys(snapshot.feedback[leaf]).sort(), ["at", "note", "rating"]);
    assert.deepEqual(Object.keys(snapshot.wake), ["fresh", "headSeq", "endedOnAssistant", "pendingToolCalls"]);
    assert.equal(snapshot.wake.endedOnAssistant, true);
    // An old server would leave these fields out.
    assert.equal(snapshot.activeRun, null);
    assert.equal(snapshot.phase, "idle");
  });

  test("OPS-013 thinking is readable as text blocks, and signatures are never sent", async () => {
    const thread = fresh();
    claude.answer("claude-a", {
      parts: [{ thinking: "Six by seven." }, { redacted: true }, { text: "42." }],
    });

    const told = await (await stream(thread, "thinker", { model: "claude-a" })).rest();
    const { transcript } = await get(`/chat/sessions/${thread}`);
    const tail = await server.listen(`/chat/stream/${thread}?last_event_id=1`, as());
    const event = await tail.until("session_event");
    tail.close();

    const thinking = [{ type: "thinking", thinking: "Six by seven." }];
    assert.deepEqual(transcript.at(-1).metadata.thinking, thinking);
    assert.deepEqual(event.json.data.metadata.thinking, thinking);
    const all = JSON.stringify([transcript, event.raw, told.map(({ raw }) => raw)]);
    assert.ok(!/SIGNED-|signature|redacted_thinking/.test(all), all);
  });

  test("OPS-013 max_turns is bounded, done has final, messages and usage, a failure is a frame", async () => {
    mock.answer("scripted", calls(sum));

    const frames = await (await stream(fresh(), "hasty")).rest();
    const failed = await (await stream(fresh(), "hasty", { model: "keyless" })).rest();

    const dataOf = (name: string) => frames.find((frame) => frame.name === name)?.json.data;
    assert.deepEqual(dataOf("max_turns"), { limit: 1 });
    const { messages, usage } = dataOf("done");
    assert.ok("final" in dataOf("done") && Array.isArray(messages));
    assert.deepEqual(Object.keys(usage).sort(), ["cacheRead", "cacheWrite", "cost", "input", "output", "totalTokens"]);
    assert.equal(typeof usage.cost.total, "number");
    const [error, end] = failed.slice(-2);
    assert.deepEqual([error?.event, error?.json.error.type, end?.name], ["error", "stream_error", "[DONE]"]);
  });

  test("OPS-013 a pending approval has thread, reason, call and deadline, and a status decides", async () => {
    for (const [manifest, hasDeadline] of [
      ["gated", false],
      ["brief", true],
    ] as const) {
      const thread = fresh();
      mock.answer("scripted", inTurn(sumOf(threads), { text: "Done." }));
      const own = await stream(thread, manifest);
      const asked = (await own.until("approval_required")).json.data;
      const row = await pending(thread);

      assert.equal(suffixOf(row.thread_id), thread);
      assert.deepEqual([row.reason, row.tool_call_id], ["Sums cost money.", asked.tool_call_id]);
      assert.deepEqual(
        [asked.reason, asked.thread_id, asked.approval_id],
        [row.reason, row.thread_id, row.approval_id],
      );
      assert.equal(row.expires_at !== null, hasDeadline);
      assert.equal(asked.expires_at, row.expires_at);
      // The client drops a row whose computed deadline has passed; no pending row has such a deadline.
      assert.ok(hasDeadline || row.created_at + clientDeadlineMs > Date.now());
      if (!hasDeadline)
        await post(`/approvals/${row.approval_id}/decide`, {
          status: "approved",
          note: "",
          edited_args: { expression: "6*8" },
        });
      const frames = await own.rest();
      const output = frames.find(({ name }) => name === "tool_end")?.json.data.output;
      assert.equal(
        output,
        hasDeadline
          ? "[approval timeout] tool=calculator rule=sums"
          : `[run with arguments that a person has edited: {"expression":"6*8"}]\n48`,
      );
    }
  });

  test("OPS-013 a refused call carries the decider's note or denied, without a thread too", async () => {
    for (const [note, told] of [
      ["Too dear.", "Too dear."],
      ["", "denied"],
    ]) {
      const thread = fresh();
      mock.answer("scripted", inTurn(sumOf(threads), { text: "Done." }));
      const own = await stream(thread, "gated");
      const { approval_id } = (await own.until("approval_required")).json.data;
      await post(`/approvals/${approval_id}/decide`, { status: "denied", note });
      await own.rest();

      const { transcript } = await get(`/chat/sessions/${thread}`);
      const result = transcript.find(({ kind }: { kind: string }) => kind === "tool_result");
      assert.equal(result.content, `[approval ${told}] tool=calculator rule=sums`);
    }
    mock.answer("scripted", inTurn(sumOf(1000), { text: "Done." }));
    const own = await server.stream("/chat/stream", turn("gated", "Hello.", { model: "scripted" }), as());
    const { approval_id } = (await own.until("approval_required")).json.data;
    const { requests } = await get("/approvals?status=pending");
    assert.equal(requests.find((row: { approval_id: string }) => row.approval_id === approval_id).thread_id, "");
    await post(`/approvals/${approval_id}/decide`, { status: "denied" });
    await own.rest();
  });

  test("OPS-013 plans are read from items or plans, with thread, and steps with id and status", async () => {
    const thread = fresh();
    const steps = [{ title: "Look" }, { title: "Leap", note: "carefully" }];
    mock.answer("scripted", inTurn(calls(["plan_create", { title: "T", goal: "G", steps }]), { text: "Done." }));
    await post("/chat", turn("planner", "Plan.", { thread_id: thread, model: "scripted" }));

    const { items, plans } = await get(`/plans?thread_id=${thread}`);

    assert.deepEqual(items, plans);
    const [{ id, thread_id, plan }] = items;
    assert.equal(suffixOf(thread_id), thread);
    assert.equal(plan.title, "T");
    assert.deepEqual(
      plan.steps.map(({ title, status, note }: Record<string, string>) => [title, status, note ?? null]),
      [
        ["Look", "pending", null],
        ["Leap", "pending", "carefully"],
      ],
    );
    assert.equal(new Set(plan.steps.map((step: { id: string }) => step.id)).size, 2);
    ok(await server.request("DELETE", `/plans/${id}`, as()));
    assert.deepEqual((await get(`/plans?thread_id=${thread}`)).plans, []);
  });

  test("OPS-013 statuses tell upload errors apart, and data is the sent bytes", {
    skip: onOneHost("hosts refuse SVC_OBJECT_STORE=memory"),
  }, async () => {
    const upload = (to: TestServer, media_type = "image/gif") =>
      to.post("/files", { data: gif.toString("base64"), media_type }, as());
    const full = await startServer({ atEnd, env: { ...env, SVC_ATTACHMENTS_MAX_BYTES_PER_TENANT: "1" } });
    const storeless = await startServer({ atEnd, env: { ...env, SVC_OBJECT_STORE: "memory" } });

    const kept = ok(await upload(server)).json;

    assert.equal((await get(`/files/${kept.file_id}`)).data, gif.toString("base64"));
    const statuses = await Promise.all([upload(full), upload(storeless), upload(server, "image/png")]);
    assert.deepEqual(
      statuses.map(({ status }) => status),
      [409, 503, 400],
    );
  });

  test("OPS-013 SIGNIN-001 the sign-in route needs no credentials and says if calls need a bearer", async () => {
    const open = await startServer({ atEnd });
    const closed = { github_device: false, github_redirect: false, google_redirect: false, github_signup: "off" };

    const keyed = await server.get("/auth/methods");
    const none = await open.get("/auth/methods");

    assert.deepEqual([keyed.status, keyed.json], [200, { ...closed, bearer_required: true }]);
    assert.deepEqual([none.status, none.json], [200, { ...closed, bearer_required: false }]);
  });
});
