// Tasks that wait for an answer: they and their parent run suspend, and resume when the answer comes. See
// actors/run/child-runs/tasks.ts.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { calls, gate, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { TestStream } from "../support/http-client.ts";
import type { MockModel } from "../support/mock-model.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { sub: "alice", scopes: ["*"] },
  bob: { sub: "bob", scopes: ["chat:write", "chat:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const to = (...names: string[]) => ({ delegation: { agents: names.map((name) => ({ name })) } });
const task = (agent: string, prompt = "Do it.") => ["task", { agent, prompt }] as const;
const gatedSums = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] };

describe("tasks that wait", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["boss", "worker", "other", "third"],
      manifests: {
        lead: to("gated", "asker", "clicker", "middle", "helper"),
        lasting: { ...to("gated", "helper", "middle"), execution: { mode: "durable" } },
        wide: { ...to("gated", "asker", "helper"), execution: { tools: "parallel" } },
        short: { ...to("gated"), limits: { max_wall_clock_seconds: 3 } },
        middle: { model: { id: "other" }, ...to("gated") },
        gated: { model: { id: "worker" }, ...gatedSums },
        asker: { model: { id: "third" }, tools: ["ask_user"] },
        clicker: {
          model: { id: "worker" },
          client_tools: [{ name: "click", args_schema: { type: "object", properties: {} } }],
        },
        helper: { model: { id: "other" } },
        team: { pattern: "parallel", sub_agents: ["member", "plain"] },
        chat: { pattern: "groupchat", sub_agents: ["member", "plain"], max_turns: 1 },
        routed: { pattern: "router", sub_agents: ["member"] },
        member: { model: { id: "other" }, ...to("gated") },
        plain: { model: { id: "third" } },
      },
      env: { ...env, SVC_GRACEFUL_SHUTDOWN_SECONDS: "1" },
    }));
  });

  const fresh = (): string => `w${++count}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  const unique = (): readonly [string, object] => ["calculator", { expression: `${++count}+1000` }];
  const start = (manifest: string, thread: string) =>
    server.stream("/chat/stream", turn(manifest, "go", { thread_id: thread }), as("alice"));
  const listen = (thread: string, who: keyof typeof keys = "alice") => server.listen(`/chat/stream/${thread}`, as(who));
  const snapshot = async (thread: string, who: keyof typeof keys = "alice") =>
    (await server.get(`/chat/sessions/${thread}`, as(who))).json;
  const asked = async (thread: string, who: keyof typeof keys = "alice") =>
    (await snapshot(thread, who)).openQuestions as { event: string; data: Record<string, string> }[];
  const decide = (id: string | undefined, decision = "approved") =>
    server.post(`/approvals/${id}/decide`, { decision }, as("alice"));
  const outputs = (all: readonly Frame[]): string[] =>
    all.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
  const answerOf = (all: readonly Frame[]) => all.find(({ name }) => name === "done")?.json.data;
  const replyOn = async (stream: TestStream): Promise<Frame[]> => {
    const seen: Frame[] = [];
    for await (const frame of stream) {
      seen.push(frame);
      const { role, tool_calls } = frame.json?.data ?? {};
      if (frame.name === "session_event" && role === "assistant" && tool_calls === undefined) return seen;
    }
    throw new Error(stream.text);
  };

  /** Statuses of unfinished runs, by thread suffix. */
  function live(): Record<string, string> {
    const config = sqliteIn(server.dataDir);
    assert.ok(config.engine === "sqlite");
    const db = new Database(config.path, { readonly: true });
    const rows = db
      .prepare<[], { suffix: string; status: string }>(
        "SELECT t.suffix, r.status FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE r.ended_at IS NULL",
      )
      .all();
    db.close();
    return Object.fromEntries(rows.map(({ suffix, status }) => [suffix, status]));
  }
  /** The used limits of a thread's run, as the resuming process reads them from the row. */
  function spentOn(suffix: string): Record<string, number> {
    const config = sqliteIn(server.dataDir);
    assert.ok(config.engine === "sqlite");
    const db = new Database(config.path, { readonly: true });
    const row = db
      .prepare<[string], { spent: string }>(
        "SELECT r.spent FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE t.suffix = ?",
      )
      .get(suffix);
    db.close();
    return JSON.parse(row?.spent ?? "{}");
  }
  /** Waits until a thread's run and this number of tasks are suspended. */
  const aside = (thread: string, tasks = 1) =>
    eventually("runs that are put aside", async () => {
      const rows = live();
      const waiting = Object.values(rows).filter((status) => status === "waiting").length;
      return rows[thread] === "waiting" && waiting === tasks + 1;
    });
  const over = (thread: string) =>
    eventually("the end of all runs", async () => {
      const isLive = Object.keys(live()).some((suffix) => suffix === thread || suffix.startsWith("task-"));
      // The file may already show a state that the server has not yet learned.
      return isLive || (await snapshot(thread)).phase === "turn" ? undefined : true;
    });
  const restart = async () => {
    await server.kill();
    await server.restart();
  };
  const childOf = ({ text }: TestStream): string => /task-[0-9a-f]{16}/.exec(text)?.[0] ?? "";

  test("DEL-004 a run and its task wait for a person over a SIGKILL; the decision resumes both", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated")), { text: "All done." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
    const stream = await start("lead", thread);
    const first = await stream.until("approval_required");
    await aside(thread);

    await restart();
    const listener = await listen(thread);
    const again = await listener.until("approval_required");
    assert.deepEqual(again.json.data, first.json.data);
    assert.equal(again.json.data.thread_id, `acme:${thread}`);
    assert.equal((await decide(again.json.data.approval_id)).status, 200);
    const tail = await replyOn(listener);

    assert.equal(tail.at(-1)?.json.data.content, "All done.");
    assert.ok(tail.some(({ name, json }) => name === "subagent_end" && json.data.outcome === "ok"));
    const { messages } = (await server.get(`/chat/history/${thread}`, as("alice"))).json;
    assert.equal(messages.find(({ role }: { role: string }) => role === "tool").content, "Counted.");
    await over(thread);
    const child = await server.get(`/chat/history/${childOf(stream)}`, as("alice"));
    assert.match(JSON.stringify(child.json.messages), /Counted/);
  });

  test("DEL-005 DUR-008 a drain mid-stream records each task's usage, and not its whole reservation", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(task("middle")), { text: "It lasted." }));
    mock.answer("other", inTurn(calls(task("gated")), { text: "Never." }));
    mock.answer("worker", says("one two three", held.opened));
    await start("lasting", thread);
    await eventually("the words of the task's task", async () =>
      mock.requests.some(({ model, text }) => model === "worker" && text.includes("Do it.")),
    );

    await server.stop();
    const { output_tokens, input_tokens } = spentOn(thread);
    await server.restart();
    held.open();
    // The outcome of the task is unknown, which opens a request that this test leaves undecided.
    await aside(thread, 0);
    await server.post("/chat/abort", { thread_id: thread }, as("alice"));
    await over(thread);

    assert.ok(output_tokens !== undefined && output_tokens < 100, `${output_tokens}`);
    assert.ok(input_tokens !== undefined && input_tokens > 0);
  });

  test("DEL-004 DUR-008 a durable run with a waiting task holds no slot; both resume after a SIGKILL", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated")), calls(task("helper")), { text: "It lasted." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
    mock.answer("other", { text: "Helped." });
    const stream = await start("lasting", thread);
    const { json: run } = await stream.until("run_accepted");
    const record = async () => (await server.get(`/runs/${run.data.resume_token}`, as("alice"))).json;
    await aside(thread);
    const waiting = await record();

    await restart();
    const [question] = await asked(thread);
    assert.equal((await decide(question?.data.approval_id)).status, 200);
    const ended = await eventually("a run that is over", async () => {
      const now = await record();
      return now.ended_at === null ? undefined : now;
    });

    assert.deepEqual([waiting.status, waiting.waiting_on.kind], ["waiting", "task"]);
    assert.deepEqual([ended.status, ended.final.content], ["completed", "It lasted."]);
    const { messages } = (await server.get(`/chat/history/${thread}`, as("alice"))).json;
    const results = messages.filter(({ role }: { role: string }) => role === "tool");
    assert.deepEqual(
      results.map(({ content }: { content: string }) => content),
      ["Counted.", "Helped."],
    );
  });

  test("DEL-004 SESS-017 a snapshot has a task's questions, and approvals for those who may read them", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated"), task("asker")), { text: "Well." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
    mock.answer("third", inTurn(calls(["ask_user", { question: "Which?" }]), { text: "That." }));
    const stream = await start("wide", thread);
    await aside(thread, 2);

    const told = await asked(thread);
    assert.deepEqual(told.map(({ event }) => event).toSorted(), ["approval_required", "ui_request"]);
    assert.ok(told.every(({ data }) => data.thread_id === `acme:${thread}`));
    assert.deepEqual(
      (await asked(thread, "bob")).map(({ event }) => event),
      ["ui_request"],
    );
    assert.deepEqual(await asked(thread, "stranger"), []);
    const blind = await listen(thread, "bob");
    const question = await blind.until("ui_request");
    blind.close();
    assert.ok(!blind.text.includes("approval_required"));

    const { request_id } = question.json.data;
    assert.deepEqual(request_id, told.find(({ event }) => event === "ui_request")?.data.request_id);
    const answer = { thread_id: thread, request_id, value: "this one" };
    const foreign = await server.post("/chat/ui", answer, as("stranger"));
    assert.equal(foreign.json.signaled, false);
    assert.equal((await server.post("/chat/ui", answer, as("bob"))).json.signaled, true);
    assert.equal((await server.post("/chat/ui", answer, as("bob"))).json.signaled, false);
    await eventually("the end of one", async () => (await asked(thread)).length === 1);
    await decide(told.find(({ event }) => event === "approval_required")?.data.approval_id, "denied");
    const all = await stream.rest();
    assert.deepEqual(outputs(all).toSorted(), ["Counted.", "That."]);
    assert.equal(all.filter(({ name }) => name === "subagent_start").length, 2);
    assert.equal(all.filter(({ name }) => name === "subagent_end").length, 2);
    assert.match(JSON.stringify(mock.requests.filter(({ model }) => model === "third").at(-1)?.body), /this one/);
    assert.deepEqual(await asked(thread), []);
  });

  test("DEL-004 STREAM-032 a task's client tool runs at the caller, before a SIGKILL and after", async () => {
    for (const isKilled of [false, true]) {
      const thread = fresh();
      mock.answer("boss", inTurn(calls(task("clicker")), { text: "Done." }));
      mock.answer("worker", inTurn(calls(["click", {}]), { text: "Clicked." }));
      const stream = await start("lead", thread);
      const { data } = (await stream.until("tool_request")).json;
      assert.deepEqual([data.name, data.thread_id, data.transport], ["click", `acme:${thread}`, "client"]);
      await aside(thread);
      if (isKilled) await restart();
      const listener = await listen(thread);
      assert.deepEqual((await listener.until("tool_request")).json.data, data);
      const child = childOf(stream);
      const result = { thread_id: thread, tool_call_id: data.id, content: "ok" };
      const onTask = await server.post("/chat/tool_result", { ...result, thread_id: child }, as("alice"));
      assert.deepEqual([onTask.status, onTask.json.error], [400, "invalid_thread_id"]);
      const foreign = await server.post("/chat/tool_result", result, as("stranger"));
      assert.equal(foreign.json.signaled, false);

      const answered = await server.post("/chat/tool_result", result, as("bob"));

      assert.equal(answered.json.signaled, true);
      assert.equal((await replyOn(listener)).at(-1)?.json.data.content, "Done.");
      assert.match(JSON.stringify(mock.requests.filter(({ model }) => model === "worker").at(-1)?.body), /"ok"/);
      await over(thread);
    }
  });

  test("DEL-004 a nested task suspends with both runs above it, and they resume in order", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("middle")), { text: "Boss done." }));
    mock.answer("other", inTurn(calls(task("gated")), { text: "Middle done." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
    await start("lead", thread);
    await aside(thread, 2);
    await restart();
    const [question] = await asked(thread);
    assert.equal(question?.data.thread_id, `acme:${thread}`);
    const listener = await listen(thread);

    await decide(question?.data.approval_id);

    assert.equal((await replyOn(listener)).at(-1)?.json.data.content, "Boss done.");
    await over(thread);
    const { messages } = (await server.get(`/chat/history/${thread}`, as("alice"))).json;
    assert.ok(messages.some(({ content }: { content: string }) => content === "Middle done."));
  });

  test("DEL-005 STREAM-048 usage of an answer is that of the run and all its tasks, also of waiting ones", async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
    const counted = (reply: object) => ({ ...reply, usage });
    const used = async (thread: string) => {
      const rows = (await server.get(`/usage?thread_id=${thread}`, as("alice"))).json.items;
      return rows.reduce((sum: number, row: { tokens_input: number }) => sum + row.tokens_input, 0);
    };
    const [streamed, whole] = [fresh(), fresh()];
    // The last call has another size, so its context size differs from that of the other calls.
    const last = { text: "Done.", usage: { ...usage, prompt_tokens: 50, total_tokens: 60 } };
    mock.answer("boss", inTurn(counted(calls(task("middle"))), last));
    mock.answer("other", inTurn(counted(calls(task("gated"))), counted({ text: "Middle." })));
    mock.answer("worker", inTurn(counted(calls(unique())), counted({ text: "Counted." })));
    const stream = await start("lead", streamed);
    await aside(streamed, 2);
    const [question] = await asked(streamed);
    await decide(question?.data.approval_id);
    const done = answerOf(await stream.rest());
    mock.answer("worker", inTurn(counted(calls(unique())), counted({ text: "Counted." })));
    const json = server.post("/chat", turn("lead", "go", { thread_id: whole }), as("alice"));
    await eventually("a gate", async () => (await asked(whole)).length > 0);
    await decide((await asked(whole))[0]?.data.approval_id);
    const answer = (await json).json;

    assert.deepEqual([done.usage.input, done.usage.output], [550, 60]);
    assert.equal(done.usage.totalTokens, 60, "the window is the run's own");
    assert.equal(await used(streamed), 550);
    assert.deepEqual([answer.usage.input, await used(whole)], [550, 550]);
    assert.ok(Math.abs(answer.usage.cost.total - (550 * 2 + 60 * 8) / 1e6) < 1e-9, `${answer.usage.cost.total}`);
    assert.equal(answer.approvals.length, 1);
    assert.equal(answer.approvals[0].status, "approved");
  });

  test("DEL-005 an abort of a waiting run ends its tasks and closes their requests", async () => {
    for (const isKilled of [false, true]) {
      const thread = fresh();
      mock.answer("boss", inTurn(calls(task("middle")), { text: "Never." }));
      mock.answer("other", inTurn(calls(task("gated")), { text: "Never." }));
      mock.answer("worker", inTurn(calls(unique()), { text: "Never." }));
      await start("lead", thread);
      await aside(thread, 2);
      if (isKilled) await restart();
      const [question] = await asked(thread);

      const aborted = await server.post("/chat/abort", { thread_id: thread }, as("alice"));

      assert.equal(aborted.json.aborted, true);
      await over(thread);
      assert.deepEqual(await asked(thread), []);
      const row = (await server.get(`/approvals/${question?.data.approval_id}`, as("alice"))).json;
      assert.equal(row.status, "denied");
      const { messages } = (await server.get(`/chat/history/${thread}`, as("alice"))).json;
      assert.match(JSON.stringify(messages), /may have run \(once\)/);
    }
  });

  test("DEL-005 a conversation whose task runs or waits refuses everything else", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(task("gated")), { text: "Done." }));
    mock.answer("worker", inTurn(says("I am at", held.opened), { text: "Done." }));
    const stream = await start("lead", thread);
    await stream.until("subagent_start");
    const [{ id }] = (await snapshot(thread)).transcript;
    const refused = async () => {
      for (const answer of [
        await server.request("DELETE", `/chat/history/${thread}`, as("alice")),
        await server.post("/chat/rewind", { thread_id: thread, event_id: id }, as("alice")),
        await server.post("/chat/compact", { thread_id: thread, manifest: "lead" }, as("alice")),
        await server.post("/chat", turn("lead", "on", { thread_id: thread }), as("alice")),
        await server.post("/chat/continue", { thread_id: thread }, as("alice")),
      ])
        assert.deepEqual([answer.status, answer.json.error?.split(":")[0]], [409, "run_in_progress"], answer.text);
    };

    await refused();
    mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
    held.open();
    await stream.rest();
    const other = fresh();
    await start("lead", other);
    await aside(other);
    const [question] = await asked(other);
    const [{ id: event }] = (await snapshot(other)).transcript;
    for (const answer of [
      await server.request("DELETE", `/chat/history/${other}`, as("alice")),
      await server.post("/chat/rewind", { thread_id: other, event_id: event }, as("alice")),
      await server.post("/chat/compact", { thread_id: other, manifest: "lead" }, as("alice")),
    ])
      assert.equal(answer.status, 409, answer.text);
    await decide(question?.data.approval_id);
    await over(other);
    assert.equal((await server.request("DELETE", `/chat/history/${other}`, as("alice"))).status, 200);
  });

  test("DEL-005 STEER-001 a steer to a run with a waiting task ends the question and is read afterwards", async () => {
    const thread = fresh();
    mock.answer("boss", ({ body }) =>
      JSON.stringify(body).includes("Leave it") ? { text: "Heard." } : calls(task("gated"), task("helper")),
    );
    mock.answer("worker", inTurn(calls(unique()), { text: "Not counted." }));
    const stream = await start("lead", thread);
    await aside(thread);

    const said = await server.post("/chat/steer", { thread_id: thread, text: "Leave it." }, as("alice"));
    assert.equal(said.status, 200, said.text);

    const all = await stream.rest();
    const [first, second] = outputs(all);
    assert.equal(first, "Not counted.");
    assert.match(second ?? "", /superseded by what the user has said since/);
    assert.match(JSON.stringify(mock.requests.filter(({ model }) => model === "worker").at(-1)?.body), /superseded/);
    assert.match(JSON.stringify(mock.requests.filter(({ model }) => model === "boss").at(-1)?.body), /Leave it/);
    await over(thread);
  });

  test("DEL-005 a task waits no longer than the run above it may last", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated")), { text: "Never." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Never." }));
    const stream = await start("short", thread);
    const { data } = (await stream.until("approval_required")).json;
    await aside(thread);

    const done = answerOf(await stream.rest());

    assert.match(JSON.stringify(done), /max_wall_clock_seconds/);
    await over(thread);
    assert.deepEqual(await asked(thread), []);
    const row = (await server.get(`/approvals/${data.approval_id}`, as("alice"))).json;
    assert.notEqual(row.status, "pending");
  });

  test("DEL-005 a run cut off by a kill leaves no open question of its tasks", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(task("gated"), task("helper")), { text: "Never." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Never." }));
    mock.answer("other", says("I am at", held.opened));
    await start("wide", thread);
    await eventually("a task that waits", async () => Object.values(live()).includes("waiting"));
    const [question] = await asked(thread);

    await restart();

    await over(thread);
    assert.deepEqual(await asked(thread), []);
    const decided = await decide(question?.data.approval_id);
    assert.equal(decided.status, 409, decided.text);
    held.open();
  });

  test("DEL-005 parallel waiting tasks resume in any order of answers, also after a SIGKILL", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated"), task("asker"), task("helper")), { text: "Done." }));
    mock.answer("worker", inTurn(calls(unique()), calls(unique()), { text: "Counted." }));
    mock.answer("third", inTurn(calls(["ask_user", { question: "Which?" }]), { text: "That." }));
    mock.answer("other", { text: "Helped." });
    await start("wide", thread);
    await aside(thread, 2);
    const gateOf = async () => (await asked(thread)).find(({ event }) => event === "approval_required")?.data;

    const first = (await gateOf())?.approval_id;
    await decide(first);
    await eventually("the second gate", async () =>
      [first, undefined].includes((await gateOf())?.approval_id) ? undefined : true,
    );
    await aside(thread, 2);
    await restart();
    const question = (await asked(thread)).find(({ event }) => event === "ui_request")?.data;
    const request_id = question?.request_id;
    await server.post("/chat/ui", { thread_id: thread, request_id, value: "x" }, as("alice"));
    await aside(thread, 1);
    await decide((await gateOf())?.approval_id);
    await over(thread);

    const { messages } = (await server.get(`/chat/history/${thread}`, as("alice"))).json;
    const results = messages
      .filter(({ role }: { role: string }) => role === "tool")
      .map(({ content }: { content: string }) => content);
    assert.deepEqual(results.toSorted(), ["Counted.", "Helped.", "That."]);
    assert.equal(messages.at(-1).content, "Done.");
  });

  test("PAT-008 DEL-004 a member that delegates waits with its task, and the others run only once", async () => {
    for (const [manifest, last] of [
      ["team", "boss"],
      ["chat", "boss"],
      ["routed", "other"],
    ] as const) {
      const thread = fresh();
      mock.answer("boss", { text: "Together." });
      mock.answer("other", inTurn(calls(task("gated")), { text: "Mine." }));
      mock.answer("worker", inTurn(calls(unique()), { text: "Counted." }));
      mock.answer("third", { text: "Plain." });
      const before = mock.requests.filter(({ model }) => model === "third").length;
      await start(manifest, thread);
      await aside(thread);
      await restart();
      const listener = await listen(thread);
      await decide((await asked(thread))[0]?.data.approval_id);
      const reply = (await replyOn(listener)).at(-1)?.json.data.content;

      assert.equal(reply, last === "boss" ? "Together." : "Mine.");
      const plain = mock.requests.filter(({ model }) => model === "third").length - before;
      assert.equal(plain, manifest === "routed" ? 0 : 1, manifest);
      await over(thread);
    }
  });

  test("DEL-005 a sub-agent's task asks none of the agents above it", async () => {
    const thread = fresh();
    mock.answer("boss", { text: "Together." });
    mock.answer("other", inTurn(calls(task("gated")), { text: "Mine." }));
    mock.answer("third", { text: "Plain." });
    mock.answer("worker", { text: "Nothing to count." });

    await (await start("team", thread)).rest();

    const child = (await server.get("/chat/sessions/search?q=nothing", as("alice"))).json;
    assert.deepEqual(child.hits, []);
    assert.match(
      JSON.stringify(mock.requests.filter(({ model }) => model === "other").at(-1)?.body),
      /Nothing to count/,
    );
  });

  test("SESS-008 a continuation works after an abort, of a waiting task too, and clears it", async () => {
    const [said, waited] = [fresh(), fresh()];
    mock.answer("boss", inTurn(calls(task("gated")), { text: "Never." }));
    mock.answer("worker", inTurn(calls(unique()), { text: "Never." }));
    await start("lead", waited);
    await aside(waited);
    await server.post("/chat/abort", { thread_id: waited }, as("alice"));
    await over(waited);
    mock.answer("boss", says("I am at", new Promise(() => {})));
    const stream = await start("lead", said);
    await stream.until("text_delta");
    await server.post("/chat/abort", { thread_id: said }, as("alice"));
    assert.equal((await snapshot(said)).phase, "aborted");
    mock.answer("boss", { text: "Taken up." });

    for (const thread_id of [said, waited]) {
      const continued = await server.post("/chat/continue", { thread_id }, as("alice"));

      assert.deepEqual([continued.status, continued.json.final?.content], [200, "Taken up."], continued.text);
      const { phase, transcript } = await snapshot(thread_id);
      assert.equal(phase, "idle");
      assert.equal(transcript.filter(({ role }: { role: string }) => role === "user").length, 1);
      const next = await server.post("/chat", turn("lead", "and", { thread_id }), as("alice"));
      assert.equal(next.json.final.content, "Taken up.");
    }
  });
});
