// spec.client_tools over HTTP: calls that the client runs, their recipients and permitted answers, and the rest of the
// turn.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { untilMetric } from "../security/support.ts";
import { calls, inTurn, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { TestStream } from "../support/http-client.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const secret = "planted-named-secret-0123456789";
const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["chat:write"] },
  bob: { tenant_id: "acme", sub: "bob", scopes: ["chat:write"] },
  decider: { tenant_id: "acme", sub: "dan", scopes: ["chat:write", "approvals:write"] },
  reader: { tenant_id: "acme", sub: "reader", scopes: ["chat:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});

const args_schema = {
  type: "object",
  properties: { path: { $ref: "#/$defs/path" } },
  required: ["path"],
  additionalProperties: false,
  $defs: { path: { type: "string", minLength: 1 } },
};
const pick = (fields: object = {}) => ({ name: "pick_file", description: "Picks.", args_schema, ...fields });

describe("client tools", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let threads = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { tools: ["calculator"], client_tools: [pick(), { name: "say" }] },
        brief: { client_tools: [pick({ timeout_seconds: 0.3 })] },
        fatal: { client_tools: [pick({ fatal: true })], execution: { tools: "parallel" } },
        parallel: { tools: ["calculator"], client_tools: [pick()], execution: { tools: "parallel" } },
        policed: {
          client_tools: [pick()],
          policies: [{ id: "files", required_scopes: ["files:read"], tools: ["pick_*"] }],
        },
        gated: { client_tools: [pick()], approvals: [{ id: "files", tools: ["pick_file"], when_args: ["path"] }] },
        limited: { client_tools: [pick()], limits: { max_tool_calls: 1 } },
        short: { client_tools: [pick()], limits: { max_wall_clock_seconds: 1 } },
      },
      env: { ...env, SVC_CHAT_SCOPES: "strict", SVC_SECRET_STRONG: secret },
    }));
  });

  const fresh = (): string => `t${++threads}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  const asks = (path = "a.txt") => calls(["pick_file", { path }]);
  function say(...replies: Reply[]): void {
    mock.answer("scripted", inTurn(...replies));
  }
  const body = (manifest: string, thread: string | null) =>
    turn(manifest, "go", { model: "scripted", ...(thread !== null && { thread_id: thread }) });
  async function stream(manifest: string, thread: string | null, who: keyof typeof keys = "alice") {
    const opened = await server.stream("/chat/stream", body(manifest, thread), as(who));
    atEnd.after(() => opened.close());
    return opened;
  }
  async function listen(thread: string, who: keyof typeof keys = "reader") {
    const opened = await server.listen(`/chat/stream/${thread}`, as(who));
    atEnd.after(() => opened.close());
    return opened;
  }
  const result = (fields: object, who: keyof typeof keys = "alice") =>
    server.post("/chat/tool_result", fields, as(who));
  const asked = async (from: TestStream) => (await from.until("tool_request")).json.data;
  const outputs = (frames: readonly Frame[]) =>
    frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
  const shownResults = () => {
    const messages = (mock.requests.at(-1)?.body.messages ?? []) as { role: string; content: string }[];
    return messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  };
  const snapshotOf = async (thread: string) => (await server.get(`/chat/sessions/${thread}`, as("reader"))).json;

  test("STREAM-032 STREAM-014 GOV-020 the client is asked between tool_start and tool_end, and answers the result", async () => {
    const thread = fresh();
    say(asks(), { text: "Done." });
    const streamed = await stream("agent", thread);
    const before: Frame[] = [];
    let request: Frame | undefined;
    while (request === undefined) {
      const frame = (await streamed.next()) as Frame;
      if (frame.name === "tool_request") request = frame;
      else before.push(frame);
    }
    const { id } = request.json.data;

    const answer = await result({ thread_id: thread, tool_call_id: id, content: "line 1" });
    const frames = await streamed.rest();

    assert.deepEqual(request.json.data, {
      id,
      name: "pick_file",
      args: { path: "a.txt" },
      thread_id: `acme:${thread}`,
      transport: "client",
    });
    assert.match(id, /^call_[0-9a-f]{32}$/);
    assert.deepEqual(
      before.slice(-2).map(({ name, json }) => [name, json.data.id]),
      [
        ["tool_start", id],
        ["tool_execution_update", id],
      ],
    );
    assert.deepEqual(
      [answer.status, answer.json],
      [200, { ok: true, signaled: true, thread_id: `acme:${thread}`, tool_call_id: id }],
    );
    assert.deepEqual([frames[0]?.name, frames[0]?.json.data.id], ["tool_end", id]);
    assert.deepEqual(outputs(frames), ["line 1"]);
    assert.deepEqual(shownResults(), ["line 1"]);
    assert.equal(frames.at(-2)?.json.data.final.content, "Done.");
    const offered = mock.requests.at(-1)?.body.tools as { function: { name: string; parameters: object } }[];
    assert.deepEqual(offered.find((tool) => tool.function.name === "pick_file")?.function.parameters, args_schema);
    const { transcript } = await snapshotOf(thread);
    const kinds = transcript.map((e: { kind: string; metadata: { type?: string } }) => e.metadata.type ?? e.kind);
    assert.deepEqual(kinds.slice(-5), ["tool_call", "wait_opened", "wait_ended", "tool_result", "message"]);
  });

  test("STREAM-013 content is text, object, list or empty, and an error is a tool error", async () => {
    for (const [fields, output] of [
      [{ content: { lines: [1, "é"] } }, '{"lines":[1,"é"]}'],
      [{ content: [1, null] }, "[1,null]"],
      [{}, ""],
      [{ content: "no such file", error: true }, "[tool error/provider_error] no such file"],
      [{ content: `it is ${secret}` }, "it is [REDACTED]"],
    ] as const) {
      const thread = fresh();
      say(asks(), { text: "Done." });
      const streamed = await stream("agent", thread);
      const { id } = await asked(streamed);
      const { json } = await result({ thread_id: thread, tool_call_id: id, ...fields });
      const frames = await streamed.rest();

      assert.equal(json.signaled, true, JSON.stringify(json));
      assert.deepEqual(outputs(frames), [output]);
      assert.deepEqual(shownResults(), outputs(frames));
    }
  });

  test("STREAM-013 malformed answers are refused: wrong type, no ids, too long, too large", async () => {
    const ids = { thread_id: "t", tool_call_id: "c" };
    for (const [fields, status] of [
      [{ ...ids, content: 7 }, 422],
      [{ ...ids, content: null }, 422],
      [{ ...ids, error: "yes" }, 422],
      [{ thread_id: "t" }, 422],
      [{ tool_call_id: "c" }, 422],
      [{ ...ids, tool_call_id: "" }, 422],
      [{ ...ids, tool_call_id: "c".repeat(257) }, 422],
      [{ ...ids, tool_call_id: "c".repeat(256) }, 200],
      [{ ...ids, more: 1 }, 422],
      [{ ...ids, thread_id: "a:b" }, 400],
      [{ ...ids, thread_id: "globex:t" }, 400],
      [{ ...ids, thread_id: "acme:t" }, 200],
      [{ ...ids, content: "x".repeat(256 * 1024) }, 413],
      [{ ...ids, content: "x".repeat(255 * 1024) }, 200],
    ] as const)
      assert.equal((await result(fields)).status, status, JSON.stringify(fields).slice(0, 80));
    assert.equal((await result(ids, "reader")).status, 403);
  });

  test("STREAM-015 a wait accepts one answer for one call of one thread, and no others", async () => {
    const [thread, other] = [fresh(), fresh()];
    say(asks(), { text: "Done." });
    const first = await stream("agent", thread);
    const second = await stream("agent", other);
    const [one, two] = [await asked(first), await asked(second)];
    const ids = { thread_id: thread, tool_call_id: one.id };

    const none = [
      await result({ ...ids, thread_id: other }),
      await result({ ...ids, tool_call_id: two.id }),
      await result({ ...ids, tool_call_id: "call_1" }),
      await result({ ...ids, thread_id: "nobody" }),
      await result(ids, "stranger"),
    ].map(({ status, json }) => [status, json.ok, json.signaled]);
    assert.deepEqual(none, Array(5).fill([200, true, false]));
    // Any subject of the tenant may answer, by the suffix or by the full id from the frame.
    const race = await Promise.all([
      result({ ...ids, content: "A" }, "bob"),
      result({ ...ids, thread_id: one.thread_id, content: "B" }, "alice"),
    ]);
    const late = await result(ids);
    const output = outputs(await first.rest());

    const winners = race.flatMap(({ json }, at) => (json.signaled ? ["AB"[at]] : []));
    assert.deepEqual(winners, output);
    assert.equal(winners.length, 1);
    assert.equal(late.json.signaled, false);
    assert.equal((await result({ thread_id: other, tool_call_id: two.id, content: "C" })).json.signaled, true);
    assert.deepEqual(outputs(await second.rest()), ["C"]);
  });

  test("STREAM-005 an unanswered call becomes a tool error at its deadline, and the turn continues", async () => {
    for (const thread of [fresh(), null]) {
      say(asks(), { text: "Done." });
      const streamed = await stream("brief", thread);
      const { id, thread_id } = await asked(streamed);
      const frames = await streamed.rest();

      assert.deepEqual(outputs(frames), ["[tool error/timeout] client tool timed out"]);
      assert.deepEqual(shownResults(), outputs(frames));
      assert.equal(frames.at(-2)?.json.data.final.content, "Done.");
      assert.equal((await result({ thread_id, tool_call_id: id })).json.signaled, false);
    }
  });

  test("GOV-020 a stateless stream is asked under a name that no conversation can have", async () => {
    say(asks(), { text: "Done." });
    const streamed = await stream("agent", null);
    const { id, thread_id } = await asked(streamed);
    const suffix = thread_id.slice("acme:".length);
    assert.match(suffix, /^once-[0-9a-f]{32}$/);

    const none = [
      await result({ thread_id: suffix, tool_call_id: id }, "stranger"),
      await result({ thread_id: suffix, tool_call_id: "call_1" }),
      await result({ thread_id: `once-${"0".repeat(32)}`, tool_call_id: id }),
    ].map(({ json }) => json.signaled);
    const [first, second] = [
      await result({ thread_id: suffix, tool_call_id: id, content: "here" }, "bob"),
      await result({ thread_id: suffix, tool_call_id: id, content: "again" }),
    ];

    assert.deepEqual(none, [false, false, false]);
    assert.deepEqual([first.json.signaled, second.json.signaled], [true, false]);
    assert.deepEqual(outputs(await streamed.rest()), ["here"]);
    for (const path of ["/chat", "/chat/stream"]) {
      const refused = await server.post(path, body("agent", suffix), as("alice"));
      assert.deepEqual([refused.status, refused.json.error], [400, "invalid_thread_id"]);
    }
    const styled = await server.post("/chat/thinking", { thread_id: suffix, thinking_level: "low" }, as("alice"));
    assert.equal(styled.status, 400);
    const forked = await server.post("/chat/fork", { thread_id: "t1", new_thread_id: "once-more" }, as("alice"));
    assert.equal(forked.status, 400);
  });

  test("GOV-020 a call fails at once when no stream can carry it, and the turn continues", async () => {
    say(asks(), { text: "Done." });
    const expected = "[tool error/transport_unavailable] client tool pick_file unavailable: no client connected";
    for (const thread of [fresh(), null]) {
      const answer = await server.post("/chat", body("agent", thread), as("alice"));

      assert.equal(answer.json.final.content, "Done.");
      assert.deepEqual(shownResults(), [expected]);
    }
    const completion = await server.post(
      "/v1/chat/completions",
      { model: "agent", messages: [{ role: "user", content: "go" }] },
      as("alice"),
    );
    assert.equal(completion.json.choices[0].message.content, "Done.");
    assert.deepEqual(shownResults(), [expected]);
  });

  test("GOV-020 a failing fatal tool ends the run and logs all results of the step", async () => {
    say(calls(["pick_file", { path: "a" }], ["pick_file", { path: "b" }]), { text: "Never." });
    const thread = fresh();
    const streamed = await stream("fatal", thread);
    const [one, two] = [await asked(streamed), await asked(streamed)];
    const listener = await listen(thread);
    await result({ thread_id: thread, tool_call_id: one.id, content: "broken", error: true });
    const frames = await streamed.rest();

    assert.deepEqual(outputs(frames), [
      "[tool error/provider_error] broken",
      "[tool error/interrupted] outcome unknown: it may have run (once)",
    ]);
    assert.deepEqual(
      frames.slice(-4).map(({ name }) => name),
      ["on_error", "on_chain_end", "done", "[DONE]"],
    );
    const failure = "tool pick_file failed: [tool error/provider_error] broken";
    assert.equal(frames.at(-4)?.json.data.message, failure);
    assert.equal((await result({ thread_id: thread, tool_call_id: two.id })).json.signaled, false);
    listener.close();
    // The thread is free again, and the next turn reads both results.
    say({ text: "Again." });
    const next = await server.post("/chat", body("fatal", thread), as("alice"));
    assert.equal(next.json.final.content, "Again.");
    assert.equal(shownResults().length, 2);

    say(asks(), { text: "Never." });
    const answer = await server.post("/chat", body("fatal", fresh()), as("alice"));
    assert.deepEqual([answer.status, answer.json.error], [502, "tool_failed"]);
    assert.match(answer.json.detail, /^tool pick_file failed: .* no client connected$/);
  });

  test("GOV-020 arguments, policies, limits and approvals apply to it as to any tool", async () => {
    const thread = fresh();
    say(calls(["pick_file", { path: "" }], ["pick_file", {}], ["say", { input: 7 }]), { text: "Done." });
    const misfits = outputs(await (await stream("agent", thread)).rest());
    assert.deepEqual(misfits, [
      "[tool error/invalid_arguments] path must NOT have fewer than 1 characters",
      "[tool error/invalid_arguments] path is missing",
      "[tool error/invalid_arguments] input must be string",
    ]);
    say(asks(), { text: "Done." });
    assert.match(outputs(await (await stream("policed", fresh())).rest())[0], /^denied by policy: /);

    say(asks(), asks("b"), { text: "Done." });
    const limited = await stream("limited", fresh());
    const first = await asked(limited);
    await result({ thread_id: first.thread_id, tool_call_id: first.id, content: "one" });
    assert.match(outputs(await limited.rest())[1], /^denied by limits: max_tool_calls/);

    say(asks("c"), { text: "Done." });
    const gated = await stream("gated", fresh());
    const { approval_id } = (await gated.until("approval_required")).json.data;
    const edited_args = { path: "d" };
    await server.post(`/approvals/${approval_id}/decide`, { decision: "approved", edited_args }, as("decider"));
    const request = await asked(gated);
    await result({ thread_id: request.thread_id, tool_call_id: request.id, content: "approved" });
    const ran = '[run with arguments that a person has edited: {"path":"d"}]\napproved';
    assert.deepEqual([request.args, outputs(await gated.rest())], [edited_args, [ran]]);
  });

  test("GOV-020 an abort withdraws the call: it may have run, and a late answer has no effect", async () => {
    for (const [manifest, replies] of [
      ["agent", asks()],
      ["parallel", calls(["pick_file", { path: "a" }], ["calculator", { expression: "1+1" }])],
    ] as const) {
      const thread = fresh();
      say(replies, { text: "Never." });
      const streamed = await stream(manifest, thread);
      const { id } = await asked(streamed);
      const aborted = await server.post("/chat/abort", { thread_id: thread }, as("bob"));
      const frames = await streamed.rest();

      assert.equal(aborted.json.aborted, true);
      assert.ok(outputs(frames).includes("[tool error/interrupted] outcome unknown: it may have run (once)"));
      assert.equal((await result({ thread_id: thread, tool_call_id: id })).json.signaled, false);
      const again = await listen(thread);
      const opening: string[] = [];
      say({ text: "Next." });
      const next = server.post("/chat", body(manifest, thread), as("alice"));
      for await (const frame of again) {
        opening.push(frame.name);
        if (frame.name === "text_delta") break;
      }
      await next;
      assert.ok(!opening.includes("tool_request"), opening.join());
    }
  });

  test("GOV-020 the run's own time limit ends the wait too", async () => {
    say(asks(), { text: "Never." });
    const streamed = await stream("short", fresh());
    const frames = await streamed.rest();

    assert.match(frames.at(-2)?.json.data.final.content, /run limit reached: max_wall_clock_seconds/);
  });

  test("STREAM-032 a new listener receives each open call once, without approvals:read", async () => {
    const thread = fresh();
    say(calls(["pick_file", { path: "a" }], ["pick_file", { path: "b" }]), { text: "Done." });
    const early = await listen(thread);
    await early.until("snapshot");
    const streamed = await stream("parallel", thread);
    const requests = [await asked(streamed), await asked(streamed)];
    streamed.close();
    const late = await listen(thread);
    const resumed = await server.listen(`/chat/stream/${thread}?last_event_id=1`, as("reader"));
    atEnd.after(() => resumed.close());
    const both = async (from: TestStream) =>
      [await asked(from), await asked(from)].toSorted((one, two) => one.args.path.localeCompare(two.args.path));
    for (const listener of [early, late, resumed]) assert.deepEqual(await both(listener), requests);

    const [a, b] = requests;
    await result({ thread_id: thread, tool_call_id: a.id, content: "A" }, "bob");
    const between = await eventually("one that waits yet", async () => {
      const listener = await listen(thread);
      const first = await asked(listener);
      listener.close();
      return first.id === b.id ? first : undefined;
    });
    await result({ thread_id: thread, tool_call_id: b.id, content: "B" });
    const tail: Frame[] = [];
    for await (const frame of late) {
      tail.push(frame);
      if (frame.json?.data?.role === "assistant" && frame.json.data.content === "Done.") break;
    }

    assert.deepEqual(between, b);
    assert.ok(!tail.some(({ name }) => name === "tool_request"));
    assert.deepEqual(shownResults(), ["A", "B"]);
  });

  test("STREAM-032 an open call is sent once more after a SIGKILL, and its answer ends the turn", async () => {
    const thread = fresh();
    say(asks(), { text: "Done." });
    const streamed = await stream("agent", thread);
    const request = await asked(streamed);
    // A kill between these two steps would end the run.
    await untilMetric(server, "svc_live_runs", (live) => live === 0, as("reader"));
    await server.kill();
    await server.restart();
    const listener = await listen(thread);
    assert.deepEqual(await asked(listener), request);

    const answer = await result({ thread_id: thread, tool_call_id: request.id, content: "after" }, "bob");
    const tail: Frame[] = [];
    for await (const frame of listener) {
      tail.push(frame);
      if (frame.json?.data?.role === "assistant" && frame.json.data.content === "Done.") break;
    }

    assert.equal(answer.json.signaled, true);
    assert.ok(!tail.some(({ name }) => name === "tool_request"));
    assert.deepEqual(shownResults(), ["after"]);
  });
});
