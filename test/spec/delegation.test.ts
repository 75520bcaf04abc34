// Tasks, the work that an agent delegates to other agents, over real requests. See actors/run/child-runs/tasks.ts.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { compileProblems, compileSpec } from "../manifests/support.ts";
import { calls, chunk, gate, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Script } from "../support/mock-model/script.ts";
import type { MockModel } from "../support/mock-model.ts";
import { callsOf } from "../support/model-calls.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { sub: "alice", scopes: ["*"] },
  chatter: { sub: "chatter", scopes: ["chat:write", "chat:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const to = (...names: string[]) => ({
  delegation: { agents: names.map((name) => ({ name, description: `does ${name}` })) },
});
const sum = (expression: string) => ["calculator", { expression }] as const;
const task = (agent: string, prompt = "Do it.") => ["task", { agent, prompt }] as const;

test("DEL-002 delegation names each agent once and not itself, and a worktree binds merge_task", () => {
  const given = (delegation: object) => ({ delegation: { agents: [{ name: "y" }], ...delegation } });

  assert.deepEqual(compileProblems(given({ worktree: false, background: false, max_background: 16 })), []);
  const apart = compileSpec(given({ worktree: true })).tools.map(({ name }) => name);
  assert.deepEqual(apart, ["task", "merge_task"]);
  const tools = compileSpec({ ...given({}), tool_effects: { task: "read" } }).tools.map(({ name, effect }) => [
    name,
    effect,
  ]);
  assert.deepEqual(tools, [["task", "read"]]);
});

describe("tasks", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["boss", "worker", "other", "third"],
      manifests: {
        lead: {
          ...to("helper", "second", "guarded", "gated", "gone", "middle", "looping", "judged"),
          system_prompt: { inline: "You lead." },
        },
        side: { ...to("helper", "second"), execution: { tools: "parallel" }, tools: ["calculator"] },
        helper: { model: { id: "worker" }, tools: ["calculator"], system_prompt: { inline: "You help." } },
        second: { model: { id: "other", fallbacks: ["third"] } },
        guarded: { model: { id: "worker" }, auth: { inbound: { required_scopes: ["secrets:read"] } } },
        gated: { model: { id: "worker" }, tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] },
        middle: { model: { id: "worker" }, ...to("lead", "second") },
        looping: { model: { id: "worker" }, tools: ["calculator"], recursion_limit: 50 },
        judged: { model: { id: "worker" }, pattern: "reflect", reflect: { threshold: 0.9, max_iterations: 2 } },
        scant: { ...to("helper"), limits: { max_input_tokens: 3_000 } },
        few: { ...to("helper"), limits: { max_tool_calls: 3 } },
        hopping: { ...to("second"), limits: { max_peer_hops: 2 } },
        poor: { ...to("helper", "second"), execution: { tools: "parallel" }, limits: { max_output_tokens: 40 } },
      },
      env,
    }));
  });

  const seen = (holds: () => boolean | Promise<boolean>) => eventually("what a task does", async () => await holds());
  const fresh = (): string => `d${++count}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  const requestsOf = (model: string) => mock.requests.filter((request) => request.model === model);
  async function frames(manifest: string, thread: string, who: keyof typeof keys = "alice"): Promise<Frame[]> {
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: thread }), as(who));
    return stream.rest();
  }
  const outputs = (all: readonly Frame[]): string[] =>
    all.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
  const childOf = (all: readonly Frame[]): string => {
    const { thread_id } = all.find(({ name }) => name === "subagent_start")?.json.data ?? {};
    assert.match(thread_id, /^acme:task-[0-9a-f]{16}$/);
    return thread_id.slice("acme:".length);
  };

  test("DEL-003 DEL-004 STREAM-038 STREAM-039 a task runs with fresh context and its own prompt, between its frames", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("helper", "Add 2 and 3.")), { text: "It is 5." }));
    mock.answer("worker", inTurn(calls(sum("2+3")), { text: "Five." }));

    const all = await frames("lead", thread);

    const names = all.map(({ name }) => name).filter((name) => /^(tool_start|tool_end|subagent_)/.test(name));
    assert.deepEqual(names, ["tool_start", "subagent_start", "subagent_end", "tool_end"]);
    const start = all.find(({ name }) => name === "subagent_start")?.json.data;
    const end = all.find(({ name }) => name === "subagent_end")?.json.data;
    assert.deepEqual([start.agent, start.background, end.agent, end.outcome], ["helper", false, "helper", "ok"]);
    assert.equal(`acme:task-${start.task_id}`, start.thread_id);
    assert.deepEqual(outputs(all), ["Five."]);
    const [asked] = requestsOf("worker").slice(-2);
    const messages = asked?.body.messages as { role: string; content: string }[];
    assert.deepEqual(
      messages.map(({ role, content }) => [role, content]),
      [
        ["system", "You help."],
        ["user", "Add 2 and 3."],
      ],
    );
    const tools = requestsOf("boss").at(-1)?.body.tools as {
      function: { name: string; parameters: { properties: { agent: { enum: string[] } } } };
    }[];
    assert.deepEqual(
      tools.map((tool) => tool.function.name),
      ["task"],
    );
    assert.ok(tools[0]?.function.parameters.properties.agent.enum.includes("helper"));
  });

  test("DEL-004 a task's transcript is read-only, is in no list and is deleted with its thread", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("helper", "A needle.")), { text: "Done." }));
    mock.answer("worker", { text: "Found." });
    const child = childOf(await frames("lead", thread));

    const history = await server.get(`/chat/history/${child}`, as("alice"));
    assert.deepEqual(
      history.json.messages.map(({ content }: { content: string }) => content),
      ["A needle.", "Found."],
    );
    assert.equal((await server.get(`/chat/sessions/${child}`, as("alice"))).status, 200);
    assert.equal((await server.get(`/chat/sessions/${child}/export`, as("alice"))).status, 200);
    assert.deepEqual((await server.get(`/chat/history/${child}`, as("stranger"))).json.messages, []);
    for (const answer of [
      await server.post("/chat", turn("helper", "go", { thread_id: child }), as("alice")),
      await server.post("/chat", turn("helper", "go", { thread_id: "task-0123456789abcdef" }), as("alice")),
      await server.post("/chat/continue", { thread_id: child }, as("alice")),
      await server.post("/chat/sessions/name", { thread_id: child, name: "x" }, as("alice")),
      await server.post("/chat/thinking", { thread_id: child, thinking_level: null }, as("alice")),
      await server.request("DELETE", `/chat/history/${child}`, as("alice")),
    ])
      assert.deepEqual([answer.status, answer.json.error], [400, "invalid_thread_id"], answer.text);
    const listed = (await server.get("/chat/sessions?limit=200", as("alice"))).text;
    assert.ok(listed.includes(thread) && !listed.includes(child));
    assert.ok(!(await server.get("/chat/sessions/search?q=needle", as("alice"))).text.includes(child));
    const usage = await server.get(`/usage?thread_id=${thread}`, as("alice"));
    assert.deepEqual(
      new Set(usage.json.items.map((row: { manifest_id: string }) => row.manifest_id)),
      new Set(["lead", "helper"]),
    );

    assert.equal((await server.request("DELETE", `/chat/history/${thread}`, as("alice"))).status, 200);
    assert.deepEqual((await server.get(`/chat/history/${child}`, as("alice"))).json.messages, []);
  });

  test("DEL-004 a task that is forbidden, without agent or circular is a tool error", async () => {
    mock.answer(
      "boss",
      inTurn(calls(task("guarded"), task("gone"), task("middle"), task("nobody")), { text: "Well." }),
    );
    mock.answer("worker", inTurn(calls(task("lead")), { text: "I could not." }));

    const all = await frames("lead", fresh(), "chatter");

    const [guarded, gone, middle, nobody] = outputs(all);
    assert.match(guarded ?? "", /^\[tool error\/permission_denied\] guarded: .*missing_scopes/);
    assert.match(gone ?? "", /^\[tool error\/not_found\] gone: unknown_manifest/);
    assert.equal(middle, "I could not.");
    assert.match(nobody ?? "", /^\[tool error\/invalid_arguments\]/);
    const told = JSON.stringify(requestsOf("worker").at(-1)?.body.messages);
    assert.match(told, /lead is at work above this task/);
    const ends = all.filter(({ name }) => name === "subagent_end").map(({ json }) => json.data.outcome);
    assert.deepEqual(ends, ["error", "error", "ok"]);
  });

  test("DEL-004 without a conversation there are no tasks", async () => {
    mock.answer("boss", inTurn(calls(task("helper")), { text: "Well." }));

    const answer = await server.post("/chat", turn("lead", "go"), as("alice"));

    assert.match(JSON.stringify(answer.json.messages), /a task needs a conversation/);
  });

  test("DEL-005 tool calls of a task count for the run above, and tasks against max_peer_hops", async () => {
    mock.answer("boss", inTurn(calls(task("helper")), calls(task("helper")), { text: "Well." }));
    mock.answer("worker", inTurn(calls(sum("1+1"), sum("1+2")), { text: "Done." }));
    const few = await frames("few", fresh());
    mock.answer("boss", inTurn(calls(task("second"), task("second"), task("second")), { text: "Well." }));
    mock.answer("other", { text: "Yes." });
    const hops = await frames("hopping", fresh());

    assert.equal(outputs(few)[0], "Done.");
    assert.match(outputs(few)[1] ?? "", /max_tool_calls/);
    assert.deepEqual(outputs(hops).slice(0, 2), ["Yes.", "Yes."]);
    assert.match(outputs(hops)[2] ?? "", /max_peer_hops/);
  });

  test("DEL-005 parallel tasks share one budget, and never pass it", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("helper"), task("second"), task("helper")), { text: "ok" }));
    const words = says(
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen",
    );
    mock.answer("worker", words);
    mock.answer("other", words);

    await frames("poor", thread);

    const usage = await server.get(`/usage?thread_id=${thread}`, as("alice"));
    const written = usage.json.items.reduce(
      (all: number, row: { tokens_output: number }) => all + row.tokens_output,
      0,
    );
    assert.ok(usage.json.items.length >= 3, usage.text);
    assert.ok(written <= 40, `${written} tokens`);
  });

  test("DEL-005 tasks pass no limit of the run above, however much is left and many they are", async () => {
    const shapes = fc.record({
      max_output_tokens: fc.integer({ min: 5, max: 120 }),
      max_tool_calls: fc.integer({ min: 1, max: 6 }),
      tasks: fc.integer({ min: 1, max: 4 }),
      words: fc.integer({ min: 1, max: 60 }),
      sums: fc.integer({ min: 0, max: 3 }),
    });

    await fc.assert(
      fc.asyncProperty(shapes, async ({ max_output_tokens, max_tool_calls, tasks, words, sums }) => {
        const [name, thread] = [fresh(), fresh()];
        const limits = { max_output_tokens, max_tool_calls };
        const spec = { ...to("helper", "second"), execution: { tools: "parallel" }, limits };
        const put = { manifest: { metadata: { name }, spec } };
        assert.equal((await server.request("PUT", `/manifests/${name}`, { ...as("alice"), body: put })).status, 200);
        const asked = Array.from({ length: tasks }, (_, at) => task(at % 2 ? "second" : "helper"));
        const added = Array.from({ length: sums }, (_, at) => sum(`1+${at}`));
        mock.answer("boss", inTurn(calls(...asked), says("ok")));
        mock.answer("worker", inTurn(...(sums > 0 ? [calls(...added)] : []), says("word ".repeat(words))));
        mock.answer("other", says("word ".repeat(words)));

        const all = await frames(name, thread);

        assert.equal(all.at(-1)?.raw.includes("[DONE]"), true);
        const usage = await server.get(`/usage?thread_id=${thread}&limit=200`, as("alice"));
        const rows = usage.json.items as { tokens_output: number }[];
        const written = rows.reduce((sumOfAll, row) => sumOfAll + row.tokens_output, 0);
        assert.ok(written <= max_output_tokens, `${written} tokens of ${max_output_tokens}`);
        const children = all.filter((frame) => frame.name === "subagent_start");
        const called = await Promise.all(
          children.map(async ({ json }) => {
            const { text } = await server.get(
              `/chat/sessions/${json.data.thread_id.slice("acme:".length)}/export`,
              as("alice"),
            );
            return [...text.matchAll(/"kind": ?"tool_call"/g)].length;
          }),
        );
        const made = children.length + called.reduce((sumOfAll, each) => sumOfAll + each, 0);
        assert.ok(made <= max_tool_calls, `${made} calls of ${max_tool_calls}`);
      }),
      { numRuns: 12 },
    );
  });

  /** Thinks, then loses its connection. */
  const brokenOff = (): Script => ({
    steps: [{ send: chunk({ reasoning_content: "Let me see." }, null) }, { cut: "reset" }],
  });

  test("DEL-005 a lost model call of a task is repeated, each attempt with a reservation", async () => {
    let tries = 0;
    mock.answer("boss", inTurn(calls(task("helper"), task("second")), { text: "Both have." }));
    mock.answer("worker", () => (++tries === 1 ? brokenOff() : { text: "The second time." }));
    mock.answer("other", brokenOff);
    mock.answer("third", { text: "In its place." });

    const all = await frames("lead", fresh());

    assert.deepEqual(outputs(all), ["The second time.", "In its place."]);
  });

  test("DEL-005 unlogged questions of a task's pattern have a reservation for each attempt too", async () => {
    let asked = 0;
    mock.answer("boss", inTurn(calls(task("judged")), { text: "Judged." }));
    mock.answer("worker", () => {
      asked++;
      if (asked === 2) return brokenOff();
      return { text: [asked === 1 ? "A draft." : JSON.stringify({ score: 1, feedback: "" })] };
    });

    const all = await frames("lead", fresh());

    assert.deepEqual(outputs(all), ["A draft."]);
    assert.equal(asked, 3);
  });

  test("DEL-005 a call that a limit keeps from a retry is recorded with its usage", async () => {
    let asked = 0;
    mock.answer("boss", inTurn(calls(task("helper", "word ".repeat(1_600))), { text: "Never." }));
    mock.answer("worker", () => {
      asked++;
      return brokenOff();
    });

    const child = childOf(await frames("scant", fresh()));

    const records = await callsOf(server.dataDir, child, "acme");
    assert.equal(asked, 1);
    assert.deepEqual(
      records.map(({ facts }) => [facts.outcome, (facts.usage?.input ?? 0) > 1_500]),
      [["limited", true]],
    );
  });

  test("DEL-005 a task that repeats itself ends at the limits of the run above", async () => {
    mock.answer("boss", inTurn(calls(task("helper")), { text: "Enough." }));
    mock.answer("worker", calls(sum("1+1")));
    const thread = fresh();

    const all = await frames("few", thread);

    const child = await server.get(`/chat/history/${childOf(all)}`, as("alice"));
    const results = (child.json.messages as { role: string; content: string }[]).filter(({ role }) => role === "tool");
    assert.equal(results.filter(({ content }) => content === "2").length, 2, "the task itself was a call too");
    assert.equal(all.filter(({ name }) => name === "tool_end").length, 1);
  });

  test("DEL-005 tasks of one answer run in parallel if the manifest says so", async () => {
    const [first, second] = [gate(), gate()];
    mock.answer("boss", inTurn(calls(task("helper"), task("second")), { text: "Both." }));
    mock.answer("worker", says("a", first.opened));
    mock.answer("other", says("b", second.opened));
    const before = [requestsOf("worker").length, requestsOf("other").length];

    const running = frames("side", fresh());
    await seen(() => requestsOf("worker").length > (before[0] ?? 0) && requestsOf("other").length > (before[1] ?? 0));
    second.open();
    first.open();

    assert.deepEqual(outputs(await running).toSorted(), ["a", "b"]);
  });

  test("DEL-004 a task's gate carries the conversation's thread and is decided like any other", async () => {
    const thread = fresh();
    mock.answer("boss", inTurn(calls(task("gated")), { text: "It is 9." }));
    mock.answer("worker", inTurn(calls(sum("4+5")), { text: "Nine." }));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as("alice"));
    const asked = await stream.until("approval_required");

    assert.equal(asked.json.data.thread_id, `acme:${thread}`);
    const pending = await server.get(`/approvals?thread_id=${thread}`, as("alice"));
    assert.equal(pending.json.items.length, 1);
    const decided = await server.post(
      `/approvals/${pending.json.items[0].id}/decide`,
      { decision: "approved" },
      as("alice"),
    );
    assert.equal(decided.status, 200);
    assert.deepEqual(outputs(await stream.rest()), ["Nine."]);
  });

  test("DEL-005 an abort of the run ends its tasks", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(task("helper")), { text: "Never." }));
    mock.answer("worker", says("I am at", held.opened));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as("alice"));
    const start = await stream.until("subagent_start");
    const child = start.json.data.thread_id.slice("acme:".length);
    await seen(async () => (await server.get(`/chat/history/${child}`, as("alice"))).json.messages.length > 0);

    const aborted = await server.post("/chat/abort", { thread_id: thread }, as("alice"));

    assert.equal(aborted.json.aborted, true);
    await seen(async () => /aborted/.test((await server.get(`/chat/sessions/${child}/export`, as("alice"))).text));
    held.open();
    assert.equal((await server.request("DELETE", `/chat/history/${thread}`, as("alice"))).status, 200);
  });

  test("DEL-005 a kill during a task closes both: the call may have run, the task is interrupted", async () => {
    const thread = fresh();
    const held = gate();
    mock.answer("boss", inTurn(calls(task("helper")), { text: "Never." }));
    mock.answer("worker", says("I am at", held.opened));
    const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: thread }), as("alice"));
    const start = await stream.until("subagent_start");
    const child = start.json.data.thread_id.slice("acme:".length);
    await seen(async () => (await server.get(`/chat/history/${child}`, as("alice"))).json.messages.length > 0);

    await server.kill();
    await server.restart();

    const history = await server.get(`/chat/history/${thread}`, as("alice"));
    assert.match(JSON.stringify(history.json.messages), /outcome unknown: it may have run \(once\)/);
    const own = await server.get(`/chat/sessions/${child}/export`, as("alice"));
    assert.match(own.text, /run_interrupted|interrupted/);
    held.open();
    mock.answer("boss", { text: "Again." });
    const again = await server.post("/chat", turn("lead", "on", { thread_id: thread }), as("alice"));
    assert.equal(again.status, 200, again.text);
  });
});
