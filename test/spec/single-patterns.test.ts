// The patterns reflect and plan_execute in a conversation: model requests, client frames, the log, and limits.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { compileProblems, parseProblems, agent as spec } from "../manifests/support.ts";
import { calls, inTurn, says, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const verdict = (score: number, feedback = "Say more.") => ({ text: [JSON.stringify({ score, feedback })] });
const plan = (...titles: string[]) => ({
  text: [JSON.stringify({ subtasks: titles.map((title) => ({ title, task: `Do ${title}.` })) })],
});
const models = ["agent", "verifier", "planner", "executor"] as const;

describe("patterns of one agent", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "usage:read", "audit:read"] },
  });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const reflect = { pattern: "reflect", tools: ["calculator"], reflect: { verifier_model: "verifier" } };
    const planned = {
      pattern: "plan_execute",
      tools: ["calculator"],
      plan_execute: { planner_model: "planner", executor_model: "executor" },
    };
    const plans = (fields: object, more: object = {}) => ({
      ...planned,
      plan_execute: { ...planned.plan_execute, ...fields },
      ...more,
    });
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        reflect,
        patient: { ...reflect, reflect: { verifier_model: "verifier", max_iterations: 3, criteria: "Politeness." } },
        own: { pattern: "reflect" },
        poor: { ...reflect, limits: { max_cost_usd: 0.0482 } },
        shaped: {
          ...reflect,
          output_schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
        },
        planned,
        brief: plans({ max_subtasks: 2, executor_recursion_limit: 1, replan_on_failure: false }),
        stubborn: plans({ max_replans: 1 }),
        capped: { ...planned, limits: { max_tool_calls: 1 } },
        starved: { ...planned, limits: { max_input_tokens: 400 } },
      },
      env,
    }));
  });

  const as = { key: keys.one };
  const ask = (manifest: string, fields: object = {}) => server.post("/chat", turn(manifest, "go", fields), as);
  const streamed = async (manifest: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, "go", fields), as)).rest();
  const askedOf = (model: string) => mock.requests.filter((request) => request.model === model);
  const lastWords = (model: string, at = -1) => {
    const body = askedOf(model).at(at)?.body as { messages: { content: string }[] } | undefined;
    return body?.messages.at(-1)?.content ?? "";
  };
  function script(answers: Partial<Record<(typeof models)[number], readonly Behaviour[]>>) {
    const before = Object.fromEntries(models.map((model) => [model, askedOf(model).length]));
    for (const [model, behaviours] of Object.entries(answers)) {
      const skipped = before[model] ?? 0;
      mock.answer(model, (request) => {
        const reply = behaviours[Math.min(request.earlier - skipped, behaviours.length - 1)] as Behaviour;
        return typeof reply === "function" ? reply(request) : reply;
      });
    }
    return (model: string) => askedOf(model).length - (before[model] ?? 0);
  }
  const transcript = async (thread: string) => (await server.get(`/chat/sessions/${thread}`, as)).json.transcript;

  test("PAT-005 a draft below the threshold is retried with feedback, and the last one is sent", async () => {
    const count = script({
      agent: [{ text: ["Short."] }, { text: ["Long ", "and good."] }],
      verifier: [verdict(0.2), verdict(0.9)],
    });

    const frames = await streamed("reflect", { thread_id: "low" });

    assert.equal(wordsOf(frames), "Long and good.");
    assert.equal(frames.findLast(({ name }) => name === "done")?.json.data.final.content, "Long and good.");
    assert.deepEqual([count("agent"), count("verifier")], [2, 2]);
    assert.match(lastWords("agent"), /Short\.[\s\S]*Say more\./);
    assert.ok(frames.some(({ json }) => json?.data?.phase === "held"));
    const said = (await transcript("low")).filter(({ role }: { role: string }) => role === "assistant");
    assert.equal(said.length, 1);
    assert.deepEqual(said[0].content, "Long and good.");
    script({ agent: [{ text: ["Next."] }], verifier: [verdict(1)] });
    await ask("reflect", { thread_id: "low" });
    assert.ok(!JSON.stringify(askedOf("agent").at(-1)?.body).includes("Short."));
  });

  test("SPEC-062 tries end at max_iterations with the best draft, and criteria reach the verifier", async () => {
    const count = script({
      agent: [{ text: ["One."] }, { text: ["Two."] }, { text: ["Three."] }],
      verifier: [verdict(0.1), verdict(0.6), verdict(0.3)],
    });

    const answer = await ask("patient");

    assert.equal(answer.json.final.content, "Two.");
    assert.deepEqual([count("agent"), count("verifier")], [3, 3]);
    assert.match(JSON.stringify(askedOf("verifier").at(-1)?.body), /Politeness\./);
    assert.deepEqual(parseProblems(spec({ reflect: { threshold: 1.1 } })), ["out_of_range spec.reflect.threshold"]);
    assert.deepEqual(parseProblems(spec({ reflect: { max_iterations: 6 } })), [
      "out_of_range spec.reflect.max_iterations",
    ]);
    assert.deepEqual(compileProblems({ pattern: "reflect", reflect: { verifier_model: "nobody" } }), [
      "unresolved spec.reflect.verifier_model",
    ]);
  });

  test("a verifier that fails or answers unusably lets the answer stand", async () => {
    for (const broken of [{ text: ["Splendid!"] }, { text: ['{"score": 7, "feedback": ""}'] }, failure(400)]) {
      const count = script({ agent: [{ text: ["Mine."] }], verifier: [broken] });

      const answer = await ask("reflect");

      assert.equal(answer.json.final.content, "Mine.");
      assert.equal(count("agent"), 1);
    }
    const metrics = (await server.get("/metrics", as)).text;
    assert.match(metrics, /svc_control_degraded_total\{[^}]*control="reflect"[^}]*reason="unusable"[^}]*\} 2/);
    assert.match(metrics, /svc_control_degraded_total\{[^}]*control="reflect"[^}]*reason="failure"[^}]*\} 1/);
  });

  test("tools run in a draft, text beside calls is sent at once, and each route has rows", async () => {
    script({
      agent: [inTurn({ ...calls(["calculator", { expression: "6*7" }]), text: ["Let me see. "] }, { text: ["42."] })],
      verifier: [verdict(1)],
    });

    const frames = await streamed("reflect", { thread_id: "tooled" });

    assert.equal(wordsOf(frames), "Let me see. 42.");
    const { items } = (await server.get("/usage?thread_id=tooled", as)).json;
    const routes = items.map(({ model_id }: { model_id: string }) => model_id).sort();
    assert.deepEqual(routes, ["agent", "agent", "verifier"]);
    const { usage } = frames.findLast(({ name }) => name === "done")?.json.data ?? {};
    const input = items.reduce((sum: number, row: { tokens_input: number }) => sum + row.tokens_input, 0);
    assert.equal(usage.input, input);
  });

  test("a draft is valid for the output_schema before it is judged", async () => {
    const count = script({ agent: [{ text: ["no"] }, { text: ['{"n":1}'] }], verifier: [verdict(1)] });

    const answer = await ask("shaped");

    assert.equal(answer.json.final.content, '{"n":1}');
    assert.deepEqual([count("agent"), count("verifier")], [2, 1]);
    assert.ok(JSON.stringify(askedOf("verifier").at(-1)?.body).includes('{\\\\\\"n\\\\\\":1}'));
  });

  test("a draft that the limits leave unjudged is the answer", async () => {
    const usage = { prompt_tokens: 20_000, completion_tokens: 1_000, total_tokens: 21_000 };
    const count = script({ agent: [{ text: ["Dear."], usage }], verifier: [verdict(0)] });

    const answer = await ask("poor");

    assert.equal(answer.json.final.content, "Dear.");
    assert.equal(count("verifier"), 0);
  });

  test("an abort during a draft or its judgement ends the turn without its words", async () => {
    for (const slow of ["agent", "verifier"] as const) {
      const hold = new Promise<never>(() => {});
      script({ agent: [{ text: ["Mine."] }], verifier: [verdict(1)], [slow]: [says("{", hold)] });
      const stream = await server.stream("/chat/stream", turn("reflect", "go", { thread_id: `abort-${slow}` }), as);

      await eventually("an abort", async () => {
        const { json } = await server.post("/chat/abort", { thread_id: `abort-${slow}` }, as);
        return json.aborted === true;
      });
      const frames = await stream.rest();

      assert.equal(wordsOf(frames), "");
      assert.ok(frames.some(({ name }) => name === "aborted"));
    }
  });

  test("PAT-006 the executor does the planner's subtasks in order, and only the answer is sent", async () => {
    const count = script({
      planner: [plan("one", "two")],
      executor: [
        inTurn({ ...calls(["calculator", { expression: "1+1" }]), text: ["Hm."] }, { text: ["It is 2."] }),
        { text: ["It is 2."] },
        { text: ["Second done."] },
      ],
      agent: [{ text: ["Both ", "done."] }],
    });

    const frames = await streamed("planned", { thread_id: "plan" });

    assert.equal(wordsOf(frames), "Both done.");
    assert.equal(frames.findLast(({ name }) => name === "done")?.json.data.final.content, "Both done.");
    assert.deepEqual([count("planner"), count("executor"), count("agent")], [1, 3, 1]);
    assert.match(lastWords("executor", -2), /Do one\./);
    assert.match(lastWords("executor"), /It is 2\.[\s\S]*Do two\./);
    assert.match(lastWords("agent"), /It is 2\.[\s\S]*Second done\./);
    const events = (await server.get("/chat/history?thread_id=plan", as)).json;
    assert.ok(events);
    const said = (await transcript("plan")).filter(({ role }: { role: string }) => role === "assistant");
    assert.deepEqual(
      said.map(({ content }: { content: string }) => content),
      ["Hm.", "It is 2.", "Second done.", "Both done."],
    );
    assert.equal(frames.filter(({ name }) => name === "tool_end").length, 1);
  });

  test("a failed subtask is planned anew with the results so far, up to max_replans", async () => {
    const count = script({
      planner: [plan("one", "two"), plan("three"), plan("four")],
      executor: [{ text: ["First done."] }, { text: ["FAILED: no way."] }, { text: ["FAILED again."] }],
      agent: [{ text: ["Half of it."] }],
    });

    const answer = await ask("stubborn");

    assert.equal(answer.json.final.content, "Half of it.");
    assert.deepEqual([count("planner"), count("executor"), count("agent")], [2, 3, 1]);
    assert.match(lastWords("planner"), /First done\.[\s\S]*FAILED: no way\./);
    assert.match(lastWords("agent"), /FAILED again\./);
  });

  test("SPEC-063 plans end at max_subtasks, subtasks at executor_recursion_limit, or a failure", async () => {
    const count = script({
      planner: [plan("one", "two", "three")],
      executor: [{ text: ["Done."] }, calls(["calculator", { expression: "1" }])],
      agent: [{ text: ["So far."] }],
    });

    const answer = await ask("brief");

    assert.equal(answer.json.final.content, "So far.");
    assert.deepEqual([count("planner"), count("executor"), count("agent")], [1, 2, 1]);
    assert.match(lastWords("agent"), /not done within 1 steps/);
    for (const [field, value] of [
      ["max_subtasks", 21],
      ["max_replans", 6],
      ["executor_recursion_limit", 0],
    ] as const)
      assert.deepEqual(parseProblems(spec({ plan_execute: { [field]: value } })), [
        `out_of_range spec.plan_execute.${field}`,
      ]);
    for (const field of ["planner_model", "executor_model"])
      assert.deepEqual(compileProblems({ plan_execute: { [field]: "nobody" } }), [
        `unresolved spec.plan_execute.${field}`,
      ]);
  });

  test("a planner that returns garbage gets one repair, and then the agent answers", async () => {
    const count = script({ planner: [{ text: ["I would rather not."] }], agent: [{ text: ["Then I do."] }] });

    const answer = await ask("planned");

    assert.equal(answer.json.final.content, "Then I do.");
    assert.deepEqual([count("planner"), count("executor"), count("agent")], [2, 0, 1]);
  });

  test("a planner or an executor that fails is the turn's failure", async () => {
    script({ planner: [failure(400)] });
    assert.equal((await ask("planned")).status, 502);
    script({ planner: [plan("one")], executor: [failure(400)] });
    assert.equal((await ask("planned")).status, 502);
  });

  test("limits bind planner, executor and answer together", async () => {
    const one = calls(["calculator", { expression: "1" }]);
    script({
      planner: [plan("one", "two")],
      executor: [one, { text: ["Done."] }, one, { text: ["Done."] }],
      agent: [{ text: ["All."] }],
    });

    const capped = await streamed("capped");
    const starved = await ask("starved");

    const results = capped.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(results.length, 2);
    assert.match(results[1], /denied by limits: max_tool_calls \(1\) reached/);
    assert.equal(starved.json.final.content, "run limit reached: max_input_tokens");
  });
});
