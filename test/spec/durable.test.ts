// Durable runs over HTTP: accepted, watched, cancelled, and finished despite crashes of the process.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, gate, inTurn, never, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write"] },
  gatekeeper: { scopes: ["chat:write", "approvals:write"] },
  operator: { scopes: ["runs:write"] },
  watcher: { scopes: ["runs:read"] },
  reader: { scopes: ["approvals:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});
const durable = { mode: "durable" };
const sum = (expression: string) => ["calculator", { expression }] as const;
const isoPattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const over = ["completed", "failed", "expired", "dead"];

/** The fields of a run's record. */
const recordKeys = ["error", "expires_at", "fiber_id", "final", "manifest_id", "resume_token", "status"];

function clientOf(server: () => TestServer) {
  const alice = { key: keys.alice };
  return {
    async accept(manifest: string, text: string, fields: object = {}, options = alice): Promise<string> {
      const { status, json } = await server().post("/chat", turn(manifest, text, fields), options);
      assert.equal(status, 202, JSON.stringify(json));
      return json.resume_token;
    },
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    async record(token: string): Promise<any> {
      const { status, json } = await server().get(`/chat/runs/${token}`, alice);
      assert.equal(status, 200);
      return json;
    },
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    until(token: string, ...statuses: readonly string[]): Promise<any> {
      return eventually(`${token} as ${statuses}`, async () => {
        const found = await this.record(token);
        return statuses.includes(found.status) ? found : undefined;
      });
    },
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    ended(token: string): Promise<any> {
      return this.until(token, ...over);
    },
  };
}

const named = (frames: readonly Frame[]) => frames.filter(({ name }) => name !== ":").map(({ name }) => name);
const statusesIn = (frames: readonly Frame[]) =>
  frames.filter(({ name }) => name === "run_status").map(({ json }) => json.data.status);

describe("durable runs", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const client = clientOf(() => server);
  const { accept, record } = client;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "other"],
      manifests: {
        plain: {},
        agent: { tools: ["calculator"], execution: durable },
        brief: { execution: { ...durable, resume_token_ttl_seconds: 7 } },
        asker: {
          tools: ["calculator", "ask_user"],
          execution: durable,
          client_tools: [{ name: "click", args_schema: { type: "object", properties: {} } }],
          approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
        },
        gated: {
          tools: ["calculator"],
          execution: durable,
          approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
        },
      },
      env: { ...env, SVC_HIBERNATE_AFTER_SECONDS: "40" },
    }));
  });

  test("DUR-002 SPEC-054 a durable manifest answers 202 with a token, a transient one the reply", async () => {
    mock.answer("scripted", says("Hello."));
    const before = Date.now();

    const transient = await server.post("/chat", turn("plain", "hi", { thread_id: "t1" }), { key: keys.alice });
    const accepted = await server.post("/chat", turn("agent", "hi", { thread_id: "t2" }), { key: keys.alice });
    const alone = await server.post("/chat", turn("agent", "hi"), { key: keys.alice });

    assert.equal(transient.status, 200);
    assert.equal(accepted.status, 202);
    const { status, resume_token, fiber_id, expires_at, thread_id, ...rest } = accepted.json;
    assert.deepEqual([status, thread_id, rest], ["accepted", "acme:t2", {}]);
    assert.match(resume_token, /^[0-9a-f]{32}$/);
    assert.equal(fiber_id, resume_token);
    const begun = Number.parseInt(resume_token.slice(0, 12), 16);
    assert.ok(begun >= before && begun <= Date.now(), "rows of one time lie together");
    assert.match(expires_at, isoPattern);
    assert.equal(alone.json.thread_id, null);
    const { json } = await server.get("/chat/history/t2", { key: keys.alice });
    await client.ended(resume_token);
    assert.ok(
      JSON.stringify(json).includes("hi"),
      "what the caller has said is in the log before the run is answered for",
    );
  });

  test("SPEC-055 DUR-009 the time of a run is the manifest's, else SVC_HIBERNATE_AFTER_SECONDS", async () => {
    mock.answer("scripted", says("Hello."));
    for (const [manifest, seconds] of [
      ["brief", 7],
      ["agent", 40],
    ] as const) {
      const from = Date.now();
      const { json } = await server.post("/chat", turn(manifest, "hi"), { key: keys.alice });
      const left = Date.parse(json.expires_at) - seconds * 1_000;

      assert.ok(left >= from && left <= Date.now(), `${manifest}: ${json.expires_at}`);
      await client.ended(json.resume_token);
    }
  });

  test("DUR-003 DUR-006 the record has the run's status and its answer", async () => {
    const held = gate();
    mock.answer("scripted", says("Hello ", held.opened, "there."));
    const token = await accept("agent", "hi");

    const running = await client.until(token, "running");
    held.open();
    const done = await client.ended(token);

    assert.deepEqual(Object.keys(done).sort(), recordKeys);
    assert.deepEqual([running.final, running.error], [null, null]);
    const { expires_at, ...rest } = done;
    assert.match(expires_at, isoPattern);
    assert.deepEqual(rest, {
      status: "completed",
      fiber_id: token,
      resume_token: token,
      final: { role: "assistant", content: "Hello there." },
      error: null,
      manifest_id: "agent",
    });
  });

  test("SESS-017 a snapshot has the durable run in flight, and none after its end", async () => {
    const held = gate();
    mock.answer("scripted", says("Hello", held.opened, "."));
    const token = await accept("agent", "go", { thread_id: "active" });
    const shown = async () => (await server.get("/chat/sessions/active", { key: keys.alice })).json.activeRun;
    const running = await eventually("a run that is at work", async () => {
      const active = await shown();
      return active?.status === "running" ? active : undefined;
    });
    const stream = await server.listen("/chat/stream/active", { key: keys.alice });
    const told = (await stream.until("snapshot")).json.data.activeRun;
    stream.close();

    held.open();
    await client.ended(token);

    const { expires_at } = (await server.get(`/chat/runs/${token}`, { key: keys.alice })).json;
    assert.deepEqual(Object.keys(running), ["resumeToken", "status", "expiresAt"]);
    assert.deepEqual([running.resumeToken, told], [token, running]);
    assert.ok(running.expiresAt > Date.now() && running.expiresAt <= Date.parse(expires_at), `${running.expiresAt}`);
    assert.equal(await shown(), null);
  });

  test("DUR-005 a token that is unknown or another tenant's is 404 run_not_found", async () => {
    mock.answer("scripted", says("Hello."));
    const token = await accept("agent", "mine", { thread_id: "owned" });
    await client.ended(token);

    for (const [path, key] of [
      ["/chat/runs/unknown", keys.alice],
      [`/chat/runs/${token}`, keys.stranger],
      [`/chat/runs/${token}/stream`, keys.stranger],
      [`/chat/stream/owned?resume_token=${token}`, keys.stranger],
      [`/chat/stream/another?resume_token=${token}`, keys.alice],
      ["/chat/stream/owned?resume_token=unknown", keys.alice],
      [`/runs/${token}`, keys.stranger],
      ["/runs/unknown", keys.watcher],
      // A token of any other length is answered like an unknown one.
      ...["", "/stream"].map((rest) => [`/chat/runs/${"f".repeat(65)}${rest}`, keys.alice] as const),
      [`/chat/stream/owned?resume_token=${"f".repeat(65)}`, keys.alice],
      ...["", "/timeline", "/requests/1"].map((rest) => [`/runs/${"f".repeat(2000)}${rest}`, keys.watcher] as const),
    ] as const) {
      const { status, json } = await server.get(path, { key });
      assert.deepEqual([status, json.error], [404, "run_not_found"], path);
    }
    for (const verb of ["cancel", "retry"]) {
      const { status, json } = await server.post(`/runs/${token}/${verb}`, undefined, { key: keys.stranger });
      assert.deepEqual([status, json.error], [404, "run_not_found"], verb);
    }
    for (const unknown of [token, "f".repeat(2000)]) {
      const { status, json } = await server.post("/runs/release", { token: unknown }, { key: keys.stranger });
      assert.deepEqual([status, json.error], [404, "run_not_found"], "release");
    }
  });

  test("DUR-014 a stream begins with run_accepted, has text and status, and ends with final", async () => {
    // A run that finishes at once may publish its completed state alone, so hold the reply.
    const held = gate();
    mock.answer("scripted", inTurn(calls(sum("6*7")), says(held.opened, "It is 42.")));

    const stream = await server.stream("/chat/stream", turn("agent", "sum", { thread_id: "streamed" }), {
      key: keys.alice,
    });
    const begun = await framesUntil(
      stream,
      ({ name, json }) => name === "run_status" && json.data.status === "running",
    );
    held.open();
    const frames = [...begun, ...(await stream.rest())];

    assert.equal(frames[0]?.name, "run_accepted");
    assert.deepEqual(Object.keys(frames[0]?.json.data).sort(), [
      ...["expires_at", "fiber_id", "resume_token", "status", "thread_id"],
    ]);
    const token = frames[0]?.json.data.resume_token;
    const events = frames.filter(({ name }) => name === "session_event");
    assert.deepEqual(
      events.map(({ json, id }) => [json.data.kind, Number(id) - json.data.seq]),
      [
        ["message", 1],
        ["message", 1],
        ["tool_call", 1],
        ["tool_result", 1],
        ["message", 1],
      ],
    );
    assert.equal(statusesIn(frames).at(-1), "completed");
    assert.ok(statusesIn(frames).includes("running"));
    const status = frames.find(({ name }) => name === "run_status")?.json.data;
    assert.deepEqual(Object.keys(status).sort(), [
      ...["attempt", "fiber_id", "resume_token", "status", "step", "updated_at", "waiting_on"],
    ]);
    assert.ok(named(frames).includes("text_delta"));
    assert.ok(!named(frames).includes("done"));
    assert.deepEqual(named(frames).slice(-3), ["run_status", "final", "[DONE]"]);
    const { run, usage: _usage, ...final } = frames.at(-2)?.json.data ?? {};
    assert.deepEqual(final, {
      status: "completed",
      final: { role: "assistant", content: "It is 42." },
      error: null,
      stop_reason: "end_turn",
    });
    assert.deepEqual(run, await record(token));
  });

  test("DUR-014 a client rejoins by token or thread, with a cursor and after the end", async () => {
    const held = gate();
    mock.answer("scripted", inTurn(calls(sum("1+1")), says("Two", held.opened, ", it is.")));
    const first = await server.stream("/chat/stream", turn("agent", "sum", { thread_id: "joined" }), {
      key: keys.alice,
    });
    const seen = await framesUntil(first, ({ name }) => name === "text_delta");
    const token = seen[0]?.json.data.resume_token;
    first.close();

    const byToken = await server.listen(`/chat/runs/${token}/stream`, { key: keys.alice });
    const joined = await framesUntil(byToken, ({ name }) => name === "text_delta");
    const byThread = await server.listen(`/chat/stream/joined?resume_token=${token}`, {
      key: keys.alice,
      headers: { "last-event-id": "4" },
    });
    await framesUntil(byThread, ({ name }) => name === "text_delta");
    held.open();
    const [rest, behind] = await Promise.all([byToken.rest(), byThread.rest()]);
    const later = await (await server.listen(`/chat/runs/${token}/stream`, { key: keys.alice })).rest();

    assert.deepEqual(named(joined).filter((name) => name === "session_event").length, 4);
    assert.equal(joined.at(-1)?.json.data.delta, "Two");
    assert.deepEqual(named(rest).slice(-2), ["final", "[DONE]"]);
    assert.deepEqual(
      behind.filter(({ name }) => name === "session_event").map(({ json }) => json.data.seq),
      [4],
    );
    assert.deepEqual(named(behind).slice(-2), ["final", "[DONE]"]);
    assert.deepEqual(named(later), [...Array(5).fill("session_event"), "run_status", "final", "[DONE]"]);
    assert.deepEqual(later.at(-2)?.json, rest.at(-2)?.json);
  });

  test("DUR-014 the stream of a run has no text of other runs of its thread", async () => {
    mock.answer("scripted", ({ body }) => says(`said ${(body.messages as { content: string }[]).at(-1)?.content}`));
    const first = await accept("agent", "1", { thread_id: "two-runs" });
    await client.ended(first);
    const second = await accept("agent", "2", { thread_id: "two-runs" });
    await client.ended(second);

    const words = async (token: string) => {
      const frames = await (await server.listen(`/chat/runs/${token}/stream`, { key: keys.alice })).rest();
      return frames.filter(({ name }) => name === "session_event").map(({ json }) => json.data.content);
    };

    assert.deepEqual(await words(first), ["1", "said 1"]);
    assert.deepEqual(await words(second), ["2", "said 2"]);
  });

  test("SESS-009 a second turn is 409 with the run's token, and /chat/abort ends the run", async () => {
    const held = gate();
    mock.answer("scripted", says("Hello ", held.opened));
    const token = await accept("agent", "hi", { thread_id: "busy" });
    await client.until(token, "running");

    const second = await server.post("/chat", turn("agent", "again", { thread_id: "busy" }), { key: keys.alice });
    const stopped = await server.post("/chat/abort", { thread_id: "busy" }, { key: keys.alice });
    const { status, error } = await client.ended(token);

    assert.deepEqual([second.status, second.json.detail], [409, `run_in_progress:${token}`]);
    assert.equal(stopped.json.aborted, true);
    assert.deepEqual([status, error], ["failed", "aborted"]);
    const frames = await (await server.listen(`/chat/runs/${token}/stream`, { key: keys.alice })).rest();
    assert.deepEqual(frames.at(-2)?.json.error, { message: "aborted", type: "run_error" });
  });

  test("IDEM-011 a resent request gets the stored 202, or joins the run's stream; nothing reruns", async () => {
    mock.answer("scripted", says("Hello."));
    const asked = mock.requests.length;
    const keyed = { key: keys.alice, headers: { "idempotency-key": "k1" } };
    const body = turn("agent", "once", { thread_id: "keyed" });

    const first = await server.post("/chat", body, keyed);
    const again = await server.post("/chat", body, keyed);
    await client.ended(first.json.resume_token);
    const late = await server.post("/chat", body, keyed);
    const streamed = turn("agent", "twice", { thread_id: "keyed-stream" });
    const one = await (await server.stream("/chat/stream", streamed, keyed)).rest();
    const resent = await server.stream("/chat/stream", streamed, keyed);
    const two = await resent.rest();

    assert.equal(first.headers["idempotent-replayed"], undefined);
    for (const answer of [again, late]) {
      assert.deepEqual([answer.status, answer.json], [202, first.json]);
      assert.equal(answer.headers["idempotent-replayed"], "true");
    }
    assert.equal(resent.headers["idempotent-replayed"], "true");
    assert.deepEqual(two[0]?.json, one[0]?.json);
    assert.deepEqual(named(two).slice(-2), ["final", "[DONE]"]);
    assert.equal(mock.requests.length - asked, 2);
  });

  test("DUR-014 STREAM-050 a question without a conversation is answered under its frame's thread_id", async () => {
    mock.answer(
      "scripted",
      inTurn(calls(["click", {}]), calls(["ask_user", { question: "Sure?" }]), calls(sum("6*7")), says("Done.")),
    );
    const stream = await server.stream("/chat/stream", turn("asker", "go"), { key: keys.alice });
    const isAsked = (name: string) => (frame: Frame) => frame.name === name;
    const opening = await framesUntil(stream, isAsked("tool_request"));
    const { resume_token: token, thread_id: publicId } = opening[0]?.json.data ?? {};
    const click = opening.at(-1)?.json.data;
    const answer = (path: string, body: object, key = keys.gatekeeper) => server.post(path, body, { key });
    const result = { tool_call_id: click.id, content: "clicked" };

    const foreign = await answer("/chat/tool_result", { ...result, thread_id: click.thread_id }, keys.stranger);
    const alike = await answer("/chat/tool_result", { ...result, thread_id: `fiber:${token}` }, keys.stranger);
    const malformed = await answer("/chat/tool_result", { ...result, thread_id: "fiber:nobody" });
    const clicked = await answer("/chat/tool_result", { ...result, thread_id: click.thread_id });
    const late = await answer("/chat/tool_result", { ...result, thread_id: `fiber:${token}` });
    const question = (await framesUntil(stream, isAsked("ui_request"))).at(-1)?.json.data;
    await server.restart();
    const { request_id, thread_id } = question;
    const said = await answer("/chat/ui", { request_id, thread_id, value: "yes" });
    const { waiting_on } = await eventually("the gate", async () => {
      const { json } = await server.get(`/runs/${token}`, { key: keys.watcher });
      return json.waiting_on?.kind === "approval" ? json : undefined;
    });
    const listed = await server.get(`/approvals?thread_id=acme:fiber:${token}`, { key: keys.reader });
    await answer(`/approvals/${waiting_on.id}/decide`, { decision: "approved" });
    const { status, final } = await client.ended(token);

    assert.equal(publicId, null);
    assert.deepEqual([click.thread_id, thread_id], Array(2).fill(`acme:fiber:${token}`));
    assert.deepEqual([foreign.status, foreign.json.error], [400, "invalid_thread_id"]);
    assert.deepEqual([alike.status, alike.json.signaled], [200, false]);
    assert.deepEqual([malformed.status, malformed.json.error], [400, "invalid_thread_id"]);
    assert.deepEqual(
      [clicked, late, said].map(({ json }) => json.signaled),
      [true, false, true],
    );
    assert.deepEqual(
      listed.json.items.map(({ id }: { id: string }) => id),
      [waiting_on.id],
    );
    assert.deepEqual([status, final.content], ["completed", "Done."]);
    const steered = await answer("/chat/steer", { thread_id: `acme:fiber:${token}`, text: "x" }, keys.alice);
    assert.deepEqual([steered.status, steered.json.error], [400, "invalid_thread_id"]);
    const words = mock.requests.at(-1)?.body.messages as { role: string; content: string }[];
    assert.ok(words.some(({ content }) => content === "clicked"));
  });

  test("STREAM-050 STREAM-051 a gate is announced once, to approval readers; a waiting run holds no slot", async () => {
    mock.answer("scripted", inTurn(calls(sum("6*7")), says("Done.")));
    const body = turn("gated", "sum", { thread_id: "gated" });
    const stream = await server.stream("/chat/stream", body, { key: keys.gatekeeper });
    const opening = await framesUntil(stream, ({ json }) => json?.data?.status === "waiting");
    const token = opening[0]?.json.data.resume_token;
    const blind = await server.listen(`/chat/runs/${token}/stream`, { key: keys.alice });
    const seeing = await server.listen(`/chat/runs/${token}/stream`, { key: keys.gatekeeper });
    const [hidden, shownGate] = await Promise.all(
      [blind, seeing].map((each) => framesUntil(each, ({ json }) => json?.data?.status === "waiting")),
    );

    const gateFrame = opening.find(({ name }) => name === "approval_required")?.json.data;
    const { waiting_on } = opening.at(-1)?.json.data ?? {};
    const { json: metrics } = await server.get(`/runs/${token}`, { key: keys.watcher });
    const decided = await server.post(
      `/approvals/${gateFrame.approval_id}/decide`,
      { decision: "approved" },
      { key: keys.gatekeeper },
    );
    const [rest, restBlind, restSeeing] = await Promise.all([stream.rest(), blind.rest(), seeing.rest()]);
    const after = await (await server.listen(`/chat/runs/${token}/stream`, { key: keys.gatekeeper })).rest();

    assert.deepEqual([waiting_on.kind, waiting_on.id], ["approval", gateFrame.approval_id]);
    assert.deepEqual(metrics.waiting_on, waiting_on);
    assert.equal(decided.status, 200);
    const gates = (frames: readonly Frame[]) => frames.filter(({ name }) => name === "approval_required").length;
    assert.deepEqual([gates(opening) + gates(rest), gates(shownGate ?? []) + gates(restSeeing ?? [])], [1, 1]);
    assert.deepEqual([gates(hidden ?? []) + gates(restBlind ?? []), gates(after)], [0, 0]);
    for (const frames of [rest, restBlind, restSeeing, after])
      assert.equal(frames?.at(-2)?.json.data.final.content, "Done.");
    assert.ok((await record(token)).status === "completed");
  });

  test("DUR-006 operators list the tenant's runs and cancel one, only with the scope", async () => {
    const held = gate();
    mock.answer("scripted", says("Hello ", held.opened));
    const token = await accept("agent", "hi");
    await client.until(token, "running");

    const list = await server.get("/runs?status=running&limit=5", { key: keys.watcher });
    const page = await server.get("/runs?limit=1", { key: keys.watcher });
    const next = await server.get(`/runs?limit=1&cursor=${page.json.next_cursor}`, { key: keys.watcher });
    const foreign = await server.get("/runs", { key: keys.stranger });
    const refused = await server.get("/runs", { key: keys.alice });
    const reader = await server.post(`/runs/${token}/cancel`, undefined, { key: keys.watcher });
    const retried = await server.post(`/runs/${token}/retry`, undefined, { key: keys.operator });
    const cancelled = await server.post(`/runs/${token}/cancel`, undefined, { key: keys.operator });
    const twice = await server.post(`/runs/${token}/cancel`, undefined, { key: keys.operator });

    assert.deepEqual(
      list.json.items.map((item: { run_id: string; status: string }) => [item.run_id, item.status]),
      [[token, "running"]],
    );
    assert.equal(page.json.items[0].run_id, token);
    assert.notEqual(next.json.items[0].run_id, token);
    assert.deepEqual(foreign.json.items, []);
    assert.deepEqual([refused.status, reader.status], [403, 403]);
    assert.deepEqual([retried.status, retried.json.retried], [200, false]);
    assert.deepEqual([cancelled.status, cancelled.json.status, cancelled.json.error], [200, "failed", "aborted"]);
    assert.equal(cancelled.json.principal_subj, "alice");
    assert.deepEqual([twice.status, twice.json.error], [409, "run_finished"]);
  });

  test("DUR-008 a run without a conversation is in no list, and no client can name its thread", async () => {
    mock.answer("scripted", says("Hello."));
    const token = await accept("agent", "a word that nobody has said before: xylograph");
    await client.ended(token);

    const sessions = await server.get("/chat/sessions", { key: keys.alice });
    const found = await server.get("/chat/sessions/search?q=xylograph", { key: keys.alice });
    const named = await server.get(`/chat/sessions/${encodeURIComponent(`fiber:${token}`)}`, { key: keys.alice });
    const driven = await server.post("/chat", turn("plain", "x", { thread_id: `fiber:${token}` }), { key: keys.alice });

    assert.ok(!sessions.text.includes(token));
    assert.ok(!found.text.includes(token));
    assert.deepEqual([named.status, driven.status], [400, 400]);
  });

  test("STREAM-050 POST /chat/continue of a durable manifest is a durable run too", async () => {
    mock.answer("scripted", says("Hello ", never));
    const token = await accept("agent", "hi", { thread_id: "continued" });
    await client.until(token, "running");
    await server.post(`/runs/${token}/cancel`, undefined, { key: keys.operator });
    const asked = mock.requests.length;
    mock.answer("scripted", says("Again."));

    const { status, json } = await server.post("/chat/continue", { thread_id: "continued" }, { key: keys.alice });
    assert.equal(status, 202, JSON.stringify(json));
    const done = await client.ended(json.resume_token);

    assert.equal(done.final?.content, "Again.", JSON.stringify(done));
    assert.equal(shown(mock.requests[asked]).filter(({ content }) => content === "hi").length, 1);
  });
});
