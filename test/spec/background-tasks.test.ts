// Background tasks, which run in parallel to their conversation, over real requests. See
// actors/run/child-runs/background-tasks.ts.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import fc from "fast-check";
import { compileProblems, compileSpec } from "../manifests/support.ts";
import { calls, gate, inTurn, never, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { sub: "alice", scopes: ["*"] },
  chatter: { sub: "chatter", scopes: ["chat:write", "chat:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const to = (names: readonly string[], more: object = {}) => ({
  delegation: { agents: names.map((name) => ({ name })), background: true, ...more },
});
const beside = (agent: string, prompt = "Do it.") => ["task", { agent, prompt, background: true }] as const;
const task = (agent: string, prompt = "Do it.") => ["task", { agent, prompt }] as const;
const resultOf = (task_id: string, wait_seconds?: number) =>
  ["task_result", { task_id, ...(wait_seconds !== undefined && { wait_seconds }) }] as const;

test("DEL-002 DEL-003 delegation.background alone adds the argument and the tool task_result", () => {
  const given = (delegation: object) => ({ delegation: { agents: [{ name: "y" }], ...delegation } });
  const toolsOf = (delegation: object) => compileSpec(given(delegation)).tools;
  const propertiesOf = (delegation: object) => Object.keys(toolsOf(delegation)[0]?.parameters.properties ?? {});

  assert.deepEqual(compileProblems(given({ background: true, max_background: 1 })), []);
  for (const max_background of [0, 17])
    assert.throws(() => compileProblems(given({ background: true, max_background })), { code: "invalid_manifest" });
  assert.deepEqual(
    toolsOf({ background: true }).map(({ name, effect, risk }) => [name, effect, risk]),
    [
      ["task", "once", "speaks"],
      ["task_result", "read", "reads"],
    ],
  );
  assert.deepEqual(propertiesOf({ background: true }), ["agent", "prompt", "background"]);
  assert.deepEqual(propertiesOf({}), ["agent", "prompt"]);
  assert.deepEqual(
    toolsOf({}).map(({ name }) => name),
    ["task"],
  );
});

describe("tasks in the background", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["boss", "worker", "other", "third"],
      routes: { costless: { provider: "openai", model: "costless", max_output_tokens: 4096 } },
      manifests: {
        lead: to(["helper", "second", "gated", "asker", "nesting", "guarded", "gone", "middle", "through"]),
        lasting: { ...to(["helper", "gated"]), execution: { mode: "durable" } },
        wide: { ...to(["helper", "second"]), execution: { tools: "parallel" } },
        two: to(["helper"], { max_background: 2 }),
        plain: { delegation: { agents: [{ name: "helper" }] } },
        poor: { ...to(["helper", "second"]), limits: { max_output_tokens: 60 } },
        few: { ...to(["counter"]), limits: { max_tool_calls: 4 } },
        helper: { model: { id: "worker" } },
        second: { model: { id: "other" } },
        counter: { model: { id: "worker" }, tools: ["calculator"], recursion_limit: 20 },
        gated: { model: { id: "worker" }, tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        asker: { model: { id: "third" }, tools: ["ask_user"] },
        nesting: { model: { id: "other" }, ...to(["helper"]) },
        middle: { model: { id: "other" }, delegation: { agents: [{ name: "gated" }] } },
        through: { model: { id: "third" }, ...to(["helper"]), limits: { max_output_tokens: 30 } },
        free: {
          model: { id: "worker" },
          tools: ["calculator"],
          approvals: [{ id: "sums", tools: ["calculator"], allow_unattended: true }],
        },
        watchless: to(["free", "gated"]),
        priced: { ...to(["unpriced"]), limits: { max_cost_usd: 1 } },
        unpriced: { model: { id: "costless" } },
        guarded: { model: { id: "worker" }, auth: { inbound: { required_scopes: ["secrets:read"] } } },
      },
      env,
    }));
  });

  const fresh = (): string => `b${++count}`;
  const as = (who: keyof typeof keys = "alice") => ({ key: keys[who] });
  const sum = (): readonly [string, object] => ["calculator", { expression: `${++count}+1000` }];
  async function frames(manifest: string, thread: string, who: keyof typeof keys = "alice"): Promise<Frame[]> {
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: thread }), as(who));
    return stream.rest();
  }
  const outputs = (all: readonly Frame[]): string[] =>
    all.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
  const begun = (all: readonly Frame[]): { task_id: string; thread_id: string }[] =>
    all.filter(({ name }) => name === "subagent_start").map(({ json }) => json.data);
  const asked = async (thread: string) =>
    (await server.get(`/chat/sessions/${thread}`, as())).json.openQuestions as {
      event: string;
      data: Record<string, string>;
    }[];
  const runOf = async (taskId: string) => {
    const { items } = (await server.get("/runs?limit=200", as())).json;
    return items.find(({ thread_id }: { thread_id: string }) => thread_id === `acme:task-${taskId}`);
  };
  const over = (taskId: string) =>
    eventually(`the end of ${taskId}`, async () => ((await runOf(taskId))?.ended_at ? runOf(taskId) : undefined));
  const standsAs = (taskId: string, status: string) =>
    eventually(`${taskId} as ${status}`, async () => (await runOf(taskId))?.status === status);
  /** Returns the result of task_result in a later turn. */
  async function told(thread: string, taskId: string, wait?: number, manifest = "lead"): Promise<string> {
    mock.answer("boss", inTurn(calls(resultOf(taskId, wait)), { text: "So it is." }));
    return outputs(await frames(manifest, thread))[0] ?? "";
  }
  const tokensOf = async (thread: string): Promise<number> => {
    const { items } = (await server.get(`/usage?thread_id=${thread}&limit=200`, as())).json;
    return items.reduce((all: number, row: { tokens_output: number }) => all + row.tokens_output, 0);
  };
  /** The rows of a table that clients cannot read. */
  function rows(table: "run_budgets" | "budget_shares" | "runs"): Record<string, number | string>[] {
    const config = sqliteIn(server.dataDir);
    assert.ok(config.engine === "sqlite");
    const db = new Database(config.path, { readonly: true });
    const found = db.prepare<[], Record<string, number | string>>(`SELECT * FROM ${table}`).all();
    db.close();
    return found;
  }
  const noBudgets = () =>
    eventually("budgets that are gone", async () => rows("run_budgets").length + rows("budget_shares").length === 0);

  test("STREAM-040 DEL-003 DEL-006 a run continues at once and asks for the task's answer later", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(beside("helper", "Find it.")), { text: "I have begun." }));
    mock.answer("worker", says("Found", held.opened, " it."));

    const all = await frames("lead", thread);

    assert.equal(all.find(({ name }) => name === "done")?.json.data.final.content, "I have begun.");
    const names = all.map(({ name }) => name).filter((name) => /^(tool_start|tool_end|subagent_)/.test(name));
    assert.deepEqual(names, ["tool_start", "subagent_start", "tool_end"]);
    const [start] = begun(all);
    const { task_id, thread_id } = start as { task_id: string; thread_id: string };
    assert.deepEqual(start, { agent: "helper", background: true, task_id, thread_id: `acme:task-${task_id}` });
    assert.match(task_id, /^[0-9a-f]{16}$/);
    assert.deepEqual(JSON.parse(outputs(all)[0] ?? ""), { task_id, thread_id, status: "running" });
    await standsAs(task_id, "running");
    assert.deepEqual(JSON.parse(await told(thread, task_id)), { task_id, status: "running", result: null });
    mock.answer("boss", inTurn(calls(resultOf(task_id, 60)), { text: "There it is." }));
    const waiting = frames("lead", thread);
    await eventually("a run that waits", async () =>
      (await server.get(`/chat/sessions/${thread}`, as())).json.phase === "idle" ? undefined : true,
    );
    held.open();
    const answer = JSON.parse(outputs(await waiting)[0] ?? "");
    assert.deepEqual(answer, { task_id, status: "completed", result: "Found it." });
    const shown = mock.requests.filter(({ model }) => model === "worker").at(-1)?.body.messages;
    assert.deepEqual(
      (shown as { content: string }[]).map(({ content }) => content).slice(-1),
      ["Find it."],
      "nothing of the conversation",
    );
    await noBudgets();
  });

  test("DEL-003 task_result refuses a long wait, and reports a running task after the wait", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(beside("helper")), { text: "Begun." }));
    mock.answer("worker", says("At", held.opened));
    const [{ task_id } = { task_id: "" }] = begun(await frames("lead", thread));

    for (const wait of [61, -1, 1.5])
      assert.match(await told(thread, task_id, wait), /^\[tool error\/invalid_arguments\].*wait_seconds/, `${wait}`);
    assert.equal(JSON.parse(await told(thread, task_id, 1)).status, "running");
    held.open();
    await over(task_id);
    assert.deepEqual(JSON.parse(await told(thread, task_id, 60)).status, "completed");
  });

  test("DEL-003 only a background task of this conversation can be asked for", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(beside("helper"), task("helper")), { text: "Begun." }));
    mock.answer("worker", { text: "A secret." });
    const [background, foreground] = begun(await frames("lead", thread));
    await over(background?.task_id ?? "");

    assert.match(await told(thread, background?.task_id ?? ""), /A secret/);
    for (const [where, id] of [
      [fresh(), background?.task_id],
      [thread, foreground?.task_id],
      [thread, "0123456789abcdef"],
      [thread, "../x"],
    ] as const)
      assert.match(await told(where, id ?? ""), /^\[tool error\/not_found\] this conversation has no task/);
  });

  test("DEL-007 the bound on running tasks holds for simultaneous calls; an ended task frees one", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(...Array.from({ length: 5 }, () => beside("helper"))), { text: "Begun." }));
    mock.answer("worker", says("At", held.opened));

    const all = await frames("wide", thread);
    const refused = outputs(all).filter((text) => /rate_limited\] 3 tasks/.test(text));
    assert.deepEqual([begun(all).length, refused.length], [3, 2], outputs(all).join("\n"));
    mock.answer("boss", inTurn(calls(beside("helper")), { text: "Begun." }));
    const [fourth] = outputs(await frames("lead", thread));
    assert.match(fourth ?? "", /^\[tool error\/rate_limited\] 3 tasks/, "also of the next turn");
    const [elsewhere] = begun(await frames("lead", fresh()));
    assert.ok(elsewhere, "another conversation has its own");
    held.open();
    await Promise.all([...begun(all), elsewhere].map(({ task_id }) => over(task_id)));
    mock.answer("boss", inTurn(calls(beside("helper"), beside("helper"), beside("helper")), { text: "Begun." }));
    const again = gate();
    mock.answer("worker", says("At", again.opened));
    const two = begun(await frames("two", thread));
    again.open();
    await Promise.all(two.map(({ task_id }) => over(task_id)));
    assert.equal(two.length, 2);
    await noBudgets();
  });

  test("DEL-006 a background task starts no other, itself or below, and needs its declaration", async () => {
    mock.answer("boss", inTurn(calls(beside("nesting")), { text: "Begun." }));
    mock.answer("other", inTurn(calls(beside("helper"), task("helper")), { text: "Nested." }));
    mock.answer("worker", { text: "Helped." });
    const [{ task_id } = { task_id: "" }] = begun(await frames("lead", fresh()));
    await over(task_id);
    const { text } = await server.get(`/chat/sessions/task-${task_id}/export`, as());
    assert.match(text, /permission_denied\] a task in the background begins no other there/);
    assert.match(text, /Helped\./, "one that it waits for it may hand out");

    mock.answer("boss", inTurn(calls(beside("helper")), { text: "Well." }));
    assert.match(outputs(await frames("plain", fresh()))[0] ?? "", /^\[tool error\/invalid_arguments\]/);
    const stateless = await server.post("/chat", turn("lead", "go"), as());
    assert.match(JSON.stringify(stateless.json.messages), /a task needs a conversation/);
  });

  test("DEL-004 DEL-006 a task that its caller may not start, or whose agent is gone, fails at once", async () => {
    mock.answer("boss", inTurn(calls(beside("guarded"), beside("gone")), { text: "Well." }));

    const all = await frames("lead", fresh(), "chatter");

    assert.match(outputs(all)[0] ?? "", /^\[tool error\/permission_denied\] guarded: .*missing_scopes/);
    assert.match(outputs(all)[1] ?? "", /^\[tool error\/not_found\] gone: unknown_manifest/);
    assert.deepEqual(begun(all), []);
    await noBudgets();
  });

  test("DEL-006 with the worker off a task is pending, and starts when it is on again", async () => {
    const thread = fresh();
    await server.restart({ SVC_FIBER_POLL_SECONDS: "0" });
    mock.answer("boss", inTurn(calls(beside("helper")), { text: "Begun." }));
    mock.answer("worker", { text: "Helped." });
    const all = await frames("lead", thread);
    const { task_id } = JSON.parse(outputs(all)[0] ?? "");
    const waited = JSON.parse(await told(thread, task_id, 1));
    await server.restart({ SVC_FIBER_POLL_SECONDS: "1" });

    await over(task_id);
    assert.equal(JSON.parse(outputs(all)[0] ?? "").status, "pending");
    assert.deepEqual([waited.status, waited.result], ["pending", null]);
    assert.match(await told(thread, task_id), /Helped\./);
  });

  test("DEL-006 a task's question reaches the conversation after its run, and over a SIGKILL", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(beside("gated"), beside("asker"), beside("middle")), { text: "Begun." }));
    mock.answer("worker", ({ body }) =>
      JSON.stringify(body).includes('"role":"tool"') ? { text: "Counted." } : calls(sum()),
    );
    mock.answer("third", inTurn(calls(["ask_user", { question: "Which?" }]), { text: "That." }));
    mock.answer("other", inTurn(calls(task("gated")), { text: "Middle." }));
    const all = await frames("lead", thread);
    const ids = begun(all).map(({ task_id }) => task_id);
    await eventually("three questions", async () => (await asked(thread)).length === 3);
    for (const id of ids) await standsAs(id, "waiting");
    mock.answer("boss", { text: "Yes?" });
    const between = await server.post("/chat", turn("lead", "still there?", { thread_id: thread }), as());
    await server.kill();
    await server.restart();

    const questions = await asked(thread);
    assert.equal(between.status, 200, "the conversation is free");
    assert.ok(questions.every(({ data }) => data.thread_id === `acme:${thread}`));
    const { items } = (await server.get(`/approvals?thread_id=${thread}&status=pending`, as())).json;
    assert.equal(items.length, 2);
    const request_id = questions.find(({ event }) => event === "ui_request")?.data.request_id;
    const ui = { thread_id: thread, request_id, value: "this one" };
    assert.equal((await server.post("/chat/ui", ui, as("stranger"))).json.signaled, false);
    assert.equal((await server.post("/chat/ui", ui, as())).json.signaled, true);
    for (const { id } of items) await server.post(`/approvals/${id}/decide`, { decision: "approved" }, as());
    const ended = await Promise.all(ids.map(over));

    assert.deepEqual(
      ended.map(({ status }) => status),
      ["completed", "completed", "completed"],
    );
    assert.match(JSON.stringify(mock.requests.filter(({ model }) => model === "third").at(-1)?.body), /this one/);
    assert.deepEqual(await asked(thread), []);
    assert.match(await told(thread, ids[2] ?? ""), /Middle\./);
    await noBudgets();
  });

  test("DEL-006 STEER-001 a steer and an abort of the conversation's run end no background task", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", ({ body }) => {
      const said = JSON.stringify(body);
      const id = /task_id\\+":\\+"([0-9a-f]{16})/.exec(said)?.[1];
      if (id === undefined) return calls(beside("gated"));
      return said.includes("Hurry") ? says("I am at", held.opened) : calls(resultOf(id, 60));
    });
    mock.answer("worker", inTurn(calls(sum()), { text: "Counted." }));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as());
    const { task_id } = (await stream.until("subagent_start")).json.data;
    await stream.until("approval_required");
    await standsAs(task_id, "waiting");

    await eventually("a run that is put aside", async () =>
      rows("runs").some(({ manifest, status }) => manifest === "lead" && status === "waiting"),
    );
    await server.post("/chat/steer", { thread_id: thread, text: "Hurry." }, as());
    await stream.until("text_delta");
    assert.equal((await server.post("/chat/abort", { thread_id: thread }, as())).json.aborted, true);
    await stream.rest();
    held.open();

    const [question] = await asked(thread);
    assert.equal((await runOf(task_id)).status, "waiting");
    const path = `/approvals/${question?.data.approval_id}/decide`;
    assert.equal((await server.post(path, { decision: "approved" }, as())).status, 200);
    assert.equal((await over(task_id)).status, "completed");
    await noBudgets();
  });

  test("DEL-005 DEL-006 usage of a task that stops with its run counts for its siblings", async () => {
    const thread = fresh();
    const sum = ["calculator", { expression: `${++count}+2000` }] as const;
    mock.answer("boss", inTurn(calls(beside("gated")), calls(task("second")), { text: "Never." }));
    mock.answer("worker", inTurn(calls(sum), { text: "Counted." }));
    mock.answer("other", says("one two three four five", never));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as("alice"));
    const begun = new Map<string, string>();
    for (let isAsked = false; !isAsked || !begun.has("second"); ) {
      const { name, json } = (await stream.next()) as Frame;
      if (name === "subagent_start") begun.set(json.data.agent, json.data.thread_id);
      isAsked ||= name === "approval_required";
    }
    const child = begun.get("second")?.slice("acme:".length);
    const listening = await server.listen(`/chat/stream/${child}`, as("alice"));
    // Wait for text: the tokens that the task has streamed so far must be counted.
    for (let words = ""; !words.includes("five"); ) words = JSON.stringify((await listening.next())?.json);
    listening.close();

    await server.post("/chat/abort", { thread_id: thread }, as("alice"));
    const used = await eventually("a budget that nobody holds anything of", async () => {
      const [budget] = rows("run_budgets");
      const isHeld = rows("budget_shares").some(({ output_tokens }) => Number(output_tokens) > 0);
      return rows("budget_shares").length === 1 && !isHeld ? budget?.output_tokens : undefined;
    });
    const written = await tokensOf(thread);
    assert.equal((await server.request("DELETE", `/chat/history/${thread}`, as("alice"))).status, 200);
    await noBudgets();

    assert.equal(used, written);
  });

  test("DEL-006 a killed run's tasks remain, and the next turn can ask for them", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(beside("helper"), beside("gated")), says("I am at", held.opened)));
    mock.answer("worker", ({ body }) => (body.tools === undefined ? says("At", held.opened) : calls(sum())));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as());
    const first = (await stream.until("subagent_start")).json.data.task_id;
    const second = (await stream.until("subagent_start")).json.data.task_id;
    await standsAs(first, "running");
    await standsAs(second, "waiting");

    await server.kill();
    mock.answer("worker", { text: "Done." });
    await server.restart();

    assert.equal((await over(first)).status, "completed");
    assert.equal((await runOf(second)).status, "waiting");
    const [question] = await asked(thread);
    await server.post(`/approvals/${question?.data.approval_id}/decide`, { decision: "denied" }, as());
    assert.equal((await over(second)).status, "completed");
    assert.match(await told(thread, first), /Done\./);
    held.open();
    await noBudgets();
  });

  test("DEL-006 a durable run continues during its tasks and wakes when an awaited task ends", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", ({ body }) => {
      const said = JSON.stringify(body);
      const id = /task_id\\+":\\+"([0-9a-f]{16})/.exec(said)?.[1];
      if (id === undefined) return calls(beside("helper"));
      return said.includes("completed") ? { text: "It lasted." } : calls(resultOf(id, 60));
    });
    mock.answer("worker", says("Helped", held.opened, "."));
    const { json } = await server.post("/chat", turn("lasting", "go", { thread_id: thread }), as());
    const record = async () => (await server.get(`/runs/${json.resume_token}`, as())).json;
    await eventually("a run that waits", async () => (await record()).status === "waiting");
    const { waiting_on } = await record();
    await server.kill();
    await server.restart();
    held.open();

    const ended = await eventually("its end", async () => ((await record()).ended_at ? record() : undefined));

    assert.equal(waiting_on.kind, "task");
    assert.deepEqual([ended.status, ended.final.content], ["completed", "It lasted."]);
    await noBudgets();
  });

  test("DEL-006 deleting the conversation ends and erases its tasks in any state", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(beside("helper", "a-planted-word"), beside("gated")), { text: "Begun." }));
    mock.answer("worker", ({ body }) => (body.tools === undefined ? says("At", held.opened) : calls(sum())));
    const [first, second] = begun(await frames("lead", thread)).map(({ task_id }) => task_id) as [string, string];
    await standsAs(first, "running");
    await standsAs(second, "waiting");
    const [question] = await asked(thread);
    assert.equal(rows("run_budgets").length, 1, "the budget outlives its run");

    const deleted = await server.request("DELETE", `/chat/history/${thread}`, as());

    assert.equal(deleted.status, 200, deleted.text);
    for (const id of [first, second]) {
      assert.equal(await runOf(id), undefined);
      assert.deepEqual((await server.get(`/chat/history/task-${id}`, as())).json.messages, []);
    }
    assert.equal((await server.get(`/approvals/${question?.data.approval_id}`, as())).status, 404);
    assert.deepEqual([rows("run_budgets"), rows("budget_shares")], [[], []]);
    held.open();
  });

  test("DEL-004 DEL-006 a task's transcript is readable by its tenant, is in no list, and is read-only", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(beside("helper", "A needle.")), { text: "Begun." }));
    mock.answer("worker", { text: "Found." });
    const [{ task_id } = { task_id: "" }] = begun(await frames("lead", thread));
    const child = `task-${task_id}`;
    await over(task_id);

    const { messages } = (await server.get(`/chat/history/${child}`, as())).json;
    assert.deepEqual(
      messages.map(({ content }: { content: string }) => content),
      ["A needle.", "Found."],
    );
    assert.deepEqual((await server.get(`/chat/history/${child}`, as("stranger"))).json.messages, []);
    const posted = await server.post("/chat", turn("helper", "go", { thread_id: child }), as());
    const aborted = await server.post("/chat/abort", { thread_id: child }, as());
    for (const { status, json } of [posted, aborted])
      assert.deepEqual([status, json.error], [400, "invalid_thread_id"]);
    assert.ok(!(await server.get("/chat/sessions?limit=200", as())).text.includes(child));
    const { items } = (await server.get(`/usage?thread_id=${thread}`, as())).json;
    assert.equal(items.filter(({ manifest_id }: { manifest_id: string }) => manifest_id === "helper").length, 1);
  });

  test("DEL-006 APPR-009 a job's free task completes, and its gated task waits for an approval", async () => {
    mock.answer("boss", inTurn(calls(beside("free"), beside("gated")), { text: "Begun." }));
    mock.answer("worker", inTurn(calls(sum()), { text: "Counted." }));
    const job = { schedule: "0 0 1 1 *", manifest_id: "watchless", payload: { prompt: "go" }, enabled: false };
    assert.ok((await server.request("PUT", "/jobs/nightly", { ...as(), body: job })).status < 300);
    const ran = await server.post("/jobs/nightly/run", {}, as());

    assert.ok(ran.status < 300, ran.text);
    const runs = await eventually("both tasks", async () => {
      const { items } = (await server.get("/runs?limit=200", as())).json;
      const [free] = items.filter(({ manifest_id }: { manifest_id: string }) => manifest_id === "free");
      const [gated] = items.filter(({ manifest_id }: { manifest_id: string }) => manifest_id === "gated");
      return free?.status === "completed" && gated?.status === "waiting" ? { free, gated } : undefined;
    });
    const { items } = (await server.get("/approvals?status=pending", as())).json;
    assert.equal(items.length, 1);
    await server.post(`/approvals/${items[0].id}/decide`, { decision: "approved" }, as());
    await over(runs.gated.thread_id.slice("acme:task-".length));
    await noBudgets();
  });

  test("DEL-005 DEL-006 under a money limit, a model without a price is not called", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(beside("unpriced")), { text: "Begun." }));
    const [{ task_id } = { task_id: "" }] = begun(await frames("priced", thread));

    await over(task_id);

    assert.match(await told(thread, task_id), /run limit reached: max_cost_usd/);
    assert.equal(mock.requests.filter(({ model }) => model === "costless").length, 0);
  });

  test("DEL-005 DEL-006 tool calls of a task count with those of its run, which has ended", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(beside("counter")), { text: "Begun." }));
    mock.answer("worker", calls(sum()));
    const [{ task_id } = { task_id: "" }] = begun(await frames("few", thread));

    await over(task_id);

    const { messages } = (await server.get(`/chat/history/task-${task_id}`, as())).json;
    const results = messages.filter(({ role }: { role: string }) => role === "tool");
    const made = results.filter(({ content }: { content: string }) => /^\d+$/.test(content));
    assert.equal(made.length, 3, "the task itself was a call too");
    assert.match(results[3].content, /max_tool_calls \(4\)/);
    await noBudgets();
  });

  test("DEL-005 DEL-006 a run, its parallel tasks and its awaited ones never pass its limit together", async () => {
    const shapes = fc.record({
      max_output_tokens: fc.integer({ min: 20, max: 400 }),
      agents: fc.array(fc.constantFrom("helper", "second", "through"), { minLength: 1, maxLength: 3 }),
      waited: fc.boolean(),
      words: fc.integer({ min: 1, max: 200 }),
      isKilled: fc.boolean(),
    });

    await fc.assert(
      fc.asyncProperty(shapes, async ({ max_output_tokens, agents, waited, words, isKilled }) => {
        const [name, thread] = [fresh(), fresh()];
        const spec = {
          ...to(["helper", "second", "through"]),
          execution: { tools: "parallel" },
          limits: { max_output_tokens },
        };
        const put = { manifest: { metadata: { name }, spec } };
        assert.equal((await server.request("PUT", `/manifests/${name}`, { ...as(), body: put })).status, 200);
        const handed = [...agents.map((agent) => beside(agent)), ...(waited ? [task("through")] : [])];
        const speech = () => says("word ".repeat(words));
        mock.answer("boss", inTurn(calls(...handed), speech()));
        mock.answer("worker", speech());
        mock.answer("other", speech());
        mock.answer("third", inTurn(calls(beside("helper"), task("helper")), speech()));

        const all = await frames(name, thread);
        if (isKilled) {
          await server.kill();
          await server.restart();
        }
        const tasks = await eventually("the end of all tasks", async () => {
          // A killed background task leaves calls with an unknown outcome, which a person must decide.
          const { items: unknown } = (await server.get("/approvals?status=pending", as())).json;
          for (const { id } of unknown) await server.post(`/approvals/${id}/decide`, { decision: "denied" }, as());
          const { items } = (await server.get("/runs?limit=200", as())).json;
          return items.every(({ ended_at }: { ended_at: number | null }) => ended_at !== null) ? items : undefined;
        });

        assert.ok(all.length > 0 && tasks.length > 0);
        const written = await tokensOf(thread);
        assert.ok(written <= max_output_tokens, `${written} tokens of ${max_output_tokens}`);
        await noBudgets();
      }),
      { numRuns: 8 },
    );
  });
});
